"""Attempts that end in each phase for each reason: their records are what Slurm has seen."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
from collections.abc import Iterator
from typing import NamedTuple

import pytest
from rendered_jobs import Jobs, shape_of_text

from clusterjobs import resources
from clusterjobs.lab.breakage import kill_node
from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.slurm import Slurm
from clusterjobs.runs.jobs.records import read_folder

pytestmark = [pytest.mark.lab, pytest.mark.slow]

# In the first attempt it waits for the test; a case of failures fails each time. Its short waits
# let bash handle a signal that only the script gets.
PROGRAM = """
case $2 in
  failure) exit 3 ;;
  ignored) trap "" TERM ;;
esac
if [ ! -e $1.started ]; then
  touch $1.started
  until [ -e $1.go ]; do sleep 0.1; done
fi
"""


class Case(NamedTuple):
    phase: str
    reason: str

    @property
    def name(self) -> str:
        return f"{self.phase}-{self.reason}"


PHASES = ("setup", "before", "training")
ENDS = {
    "failure": ["failure", "failure"],
    "requeue": ["node_failure", "completed"],
    "time_limit": ["time_limit", "completed"],
    "lost": ["node_failure", "completed"],
    "cancel": ["cancelled"],
}
CASES = [Case(*one) for one in itertools.product(PHASES, ENDS)]
# The ranks ignore SIGTERM, so that Slurm kills the script, too.
CASES.append(Case("training", "ignored"))
NODES = len(CASES) + 5  # those that are lost do not come back


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    text = (resources.cluster_configs_dir() / "small.yaml").read_text(encoding="utf-8")
    more = text.replace("MaxCount: 2", f"MaxCount: {NODES}")
    spec = shape_of_text(more, "small.yaml", NODES)
    with running_lab(spec, tmp_path_factory.mktemp("phases"), slurm) as running:
        yield running


def submitted(jobs: Jobs, case: Case) -> str:
    program = ["bash", "-c", PROGRAM, "phase", f"/fsx/{case.name}", case.reason]
    words = " ".join(program[3:])
    own = {
        "setup": {"setup": [f"bash /fsx/program.sh {words.partition(' ')[2]}"]},
        "before": {"before": [program]},
        "training": {"command": program},
    }
    spec = jobs.spec(
        case.name,
        framework="command",
        nodes=1,
        ranks_per_node=1,
        time_limit="00:30:00",
        checkpoints={"path": f"/fsx/{case.name}-checkpoints", "marker": "latest"},
        restarts={"failure": 1, "time_limit": 1, "node_failure": 1},
        **{"command": ["true"], **own[case.phase]},
    )
    return jobs.submit(jobs.render(spec))


def end(jobs: Jobs, case: Case, job_id: str) -> tuple[list[str], int]:
    """The reasons in the records, and Slurm's number of restarts."""
    lab, fsx = jobs.lab, jobs.lab.folder.shared("/fsx")
    if case.reason != "failure":
        until(
            (fsx / f"{case.name}.started").exists,
            300,
            lambda: f"{case.name} does not start: {lab.job(job_id)}",
        )
    if case.reason == "requeue":
        lab.run(["scontrol", "requeue", job_id])
    elif case.reason == "time_limit":
        lab.run(["scancel", "--batch", "--signal=USR1", job_id])
        (fsx / f"{case.name}.go").touch()
    elif case.reason == "lost":
        kill_node(lab, lab.job(job_id).nodes)
    elif case.reason in ("cancel", "ignored"):
        lab.run(["scancel", job_id])
    lab.wait(job_id, 300)
    attempts = read_folder(fsx / "logs" / job_id).attempts
    return [one.reason for one in attempts], lab.job(job_id).restarts


def test_records_are_what_slurm_has_seen(
    jobs: Jobs, fault_counts: collections.Counter[str]
) -> None:
    # It is written once: a job that runs already must not find it empty.
    jobs.lab.folder.shared("/fsx/program.sh").write_text(PROGRAM)
    ids = {case: submitted(jobs, case) for case in CASES}
    with concurrent.futures.ThreadPoolExecutor(len(CASES)) as pool:
        ends = dict(zip(ids, pool.map(lambda one: end(jobs, *one), ids.items()), strict=True))
    expected = {
        case: (reasons, len(reasons) - 1)
        for case in CASES
        for reasons in [ENDS.get(case.reason, ["cancelled"])]
    }
    wrong = {case.name: found for case, found in ends.items() if found != expected[case]}
    fault_counts["tried"] += len(CASES)
    fault_counts["wrong_records"] += len(wrong)
    assert not wrong
