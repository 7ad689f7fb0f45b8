"""Signals to the script, its step and the whole job, in each phase: records agree with Slurm."""

from __future__ import annotations

import collections
import concurrent.futures
import itertools
import pathlib
import random
import signal
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from rendered_jobs import Jobs

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import slurm_shape
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.shape import lab_spec
from clusterjobs.lab.slurm import Slurm
from clusterjobs.runs.jobs.records import read_attempts
from clusterjobs.slurm.jobs import JobEnd

pytestmark = [pytest.mark.lab, pytest.mark.slow]

NODES = 16
WAYS = ("batch", "step", "full", "kill")
PHASES = ("preflight", "staging", "before", "training", "after", "finish")
HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGPIPE}
HARMLESS |= {
    signal.SIGTSTP,
    signal.SIGTTIN,
    signal.SIGTTOU,
    signal.SIGUSR1,
}  # USR1: only in `after`
SIGNALS = [one for one in range(1, 65) if one not in (4, 7, 8, 9, 11, 19, 32, 33)]

# At first it waits, longer than a signal needs to arrive; in the next attempt it does not.
WAIT = 'if [ ! -e "$0.sent" ]; then touch "$0.started"; for i in {1..80}; do sleep 0.05; done; fi'


class Case(NamedTuple):
    phase: str
    way: str
    number: int

    @property
    def name(self) -> str:
        return f"{self.phase}-{self.way}-{self.number}"

    @property
    def exit_code(self) -> int | None:
        """The exit code of the last attempt; None if it depends on who gets the signal first."""
        is_term = self.number == signal.SIGTERM
        if self.way == "cancel":
            return 143
        if self.phase == "finish":  # all but SIGTERM is ignored; the training has failed
            return 143 if is_term and self.way != "step" else 1
        if self.way == "step":  # only the training is a step, and then it restarts
            return 0
        if self.way == "full":  # the script, and what it waits for
            return None
        if self.phase == "after" and self.number not in HARMLESS:
            return 128 + self.number
        return 143 if is_term else 0


CASES = [Case(*one) for one in itertools.product(PHASES, WAYS, SIGNALS)]
CASES += [Case(phase, "cancel", signal.SIGTERM) for phase in PHASES]


def some_cases(count: int, seed: int = 2) -> list[Case]:
    """Each phase, each way, and then any."""
    mixed = random.Random(seed).sample(CASES, len(CASES))
    first = {one.phase: one for one in mixed} | {one.way: one for one in mixed}
    chosen = list(dict.fromkeys([*first.values(), *mixed]))
    return chosen[:count]


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The cluster `small`, with more nodes."""
    text = (resources.cluster_configs_dir() / "small.yaml").read_text(encoding="utf-8")
    assert "MaxCount: 2" in text
    more = text.replace("MaxCount: 2", f"MaxCount: {NODES}")
    facts, document = read_cluster(more, "small.yaml", {})
    spec = lab_spec(slurm_shape(facts, document), NODES)
    with running_lab(spec, tmp_path_factory.mktemp("signals"), slurm) as running:
        yield running


def rendered(jobs: Jobs, case: Case) -> pathlib.Path:
    folder = f"/fsx/{case.name}"
    wait = ["bash", "-c", WAIT, f"{folder}/{case.phase}"]
    phases: dict[str, Any] = {
        "preflight": {"preflight": {"checks": ["clock"]}},
        "staging": {"data": [{"source": "/fsx/from", "target": f"{folder}/to"}]},
        "before": {"before": [wait]},
        "training": {"command": wait},
        "after": {"after": [wait]},
    }
    spec = jobs.spec(
        case.name,
        framework="command",
        nodes=1,
        ranks_per_node=1,  # srun's exit code may be that of a rank that it has ended
        time_limit="00:30:00",
        setup=[f"mkdir -p {folder}; echo $SLURMD_NODENAME $$ > {folder}/script"],
        checkpoints={"path": f"{folder}/checkpoints", "marker": "latest"},
        restarts={"failure": 2, "time_limit": 2},
        **{
            "command": ["false" if case.phase == "finish" else "true"],
            **phases.get(case.phase, {}),
        },
    )
    script = jobs.render(spec)
    waits = f"bash -c '{WAIT}' {folder}/{case.phase}"
    replaced = {
        "preflight": ('run_child "$python" -BEsS "$job_dir/preflight.py"', f"run_child {waits}"),
        "staging": ('run_child "$@"', f'{waits}; STAGE_DIR=$job_dir run_child "$@"'),
        "finish": ("  [[ ${reason:=failure} != *failure ]]", f"  {waits}\n"),
    }
    if case.phase in replaced:
        old, new = replaced[case.phase]
        text = script.read_text()
        assert text.count(old) == 1, old
        script.write_text(text.replace(old, new + (old if case.phase == "finish" else "")))
    return script


def send(lab: Lab, case: Case, job_id: str, folder: pathlib.Path) -> None:
    options = {"batch": ["--batch"], "step": [], "full": ["--full"]}
    stops = case.number in (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)
    for number in (case.number, signal.SIGCONT) if stops else (case.number,):
        if case.way == "kill":
            node, pid = (folder / "script").read_text().split()
            lab.node_run(node, ["kill", f"-{number}", pid])
        elif case.way == "cancel":
            lab.run(["scancel", job_id])
        else:
            lab.run(["scancel", *options[case.way], f"--signal={number}", job_id])


def run_case(jobs: Jobs, case: Case, script: pathlib.Path) -> tuple[JobEnd, list[Any], str]:
    folder = jobs.lab.folder.shared("/fsx") / case.name
    job_id = jobs.submit(script)
    logs = jobs.lab.folder.shared("/fsx") / "logs" / job_id
    until((folder / f"{case.phase}.started").exists, 300, lambda: f"{case.name} does not start")
    (folder / f"{case.phase}.sent").touch()
    send(jobs.lab, case, job_id, folder)
    end = jobs.lab.wait(job_id, 300)
    records = read_attempts(text_of(logs / "attempts.jsonl"))
    return end, records, text_of(logs / "job.log")


def text_of(file: pathlib.Path) -> str:
    return file.read_text(errors="replace") if file.exists() else ""


def what_differs(case: Case, end: JobEnd, attempts: list[Any], log: str) -> str:
    """How records, log and Slurm disagree, or how the restarts differ from the budget."""
    reasons = [one.reason for one in attempts]
    if not attempts or attempts[-1].exit_code != end.exit_code:
        return "the exit code"
    if case.exit_code not in (None, end.exit_code):
        return f"the exit code: {case.exit_code} is expected"
    if f"ended with exit code {end.exit_code} after" not in log:
        return "the log"
    if (reasons[-1] == "completed") != (end.state == "COMPLETED"):
        return "whether it has completed"
    if (end.state == "CANCELLED") != (case.way == "cancel"):
        return "whether it was cancelled"
    if case.way == "cancel" and reasons != ["cancelled"]:
        return "the reason"
    allowed = 3 if case.phase == "finish" else 2  # its training fails each time
    if reasons[-1] in ("failure", "time_limit") and len(reasons) < allowed:
        return "the restarts"
    if len(reasons) > allowed or set(reasons[:-1]) - {"failure", "time_limit"}:
        return "the restarts"
    return ""


def check(jobs: Jobs, cases: list[Case], fault_counts: collections.Counter[str]) -> None:
    (jobs.lab.folder.shared("/fsx") / "from").mkdir(exist_ok=True)
    scripts = {case: rendered(jobs, case) for case in cases}
    wrong = []
    with concurrent.futures.ThreadPoolExecutor(NODES) as pool:
        ended = {case: pool.submit(run_case, jobs, case, file) for case, file in scripts.items()}
        for case, future in ended.items():
            end, attempts, log = future.result()
            fault_counts["tried"] += 1
            if different := what_differs(case, end, attempts, log):
                copies = "\n".join(text_of(one) for one in scripts[case].parent.glob("*.out"))
                wrong.append((case.name, different, end, attempts, (log or copies)[-1500:]))
    fault_counts["wrong_records"] += len(wrong)
    assert not wrong, "\n\n".join("\n".join(map(str, one)) for one in wrong)


def test_records_agree_with_slurm(jobs: Jobs, fault_counts: collections.Counter[str]) -> None:
    check(jobs, some_cases(10), fault_counts)


@pytest.mark.faults
def test_records_agree_with_slurm_after_300_signals(
    jobs: Jobs, fault_counts: collections.Counter[str]
) -> None:
    before = some_cases(10)  # have run above, and have left their files in the lab
    others = [one for one in some_cases(310, seed=20261129) if one not in before]
    check(jobs, others[:300], fault_counts)
