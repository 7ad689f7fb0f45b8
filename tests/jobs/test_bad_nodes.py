"""Jobs that start again without bad nodes, within and beside `restarts`; and preflights that are
ended while a check hangs. All at the same time in one lab, each on nodes of its own.

Which node is bad is acted by an `nvidia-smi` on PATH (its words are explained in tests/node): on
the last node of a job, in as many attempts as the spec says.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from faults import Running
from rendered_jobs import Jobs, shape_of

from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.slurm import Slurm

pytestmark = pytest.mark.lab

FAILED = 69
TIMEOUT = 300

NVIDIA_SMI = """\
#!/bin/bash
[[ $1 == --query-gpu=* ]] || exit 0
count=8
attempt=$((${SLURM_RESTART_COUNT:-0} + 1))
if ((attempt <= BAD_UNTIL)); then
  case $FAULT in
    last) ((SLURM_PROCID + 1 < SLURM_NTASKS)) || count=7 ;;
    each) count=7 ;;
    hang) touch "$MARK"; exec sleep 600 ;;
  esac
fi
for ((i = 0; i < count; i++)); do echo 'NVIDIA A100-SXM4-40GB, 0'; done
"""


class Case(NamedTuple):
    """One job: what its nodes have, what is done to it, and how its attempts end."""

    fault: str
    moment: str
    nodes: str  # which of them are bad, as the stand-in knows it
    bad_until: int
    reasons: tuple[str, ...]
    exit_code: int
    keys: dict[str, Any]
    restarts: dict[str, int] | None = None
    command: str = "true"
    tell: tuple[str, ...] | None = None  # scancel's options, once a check hangs

    @property
    def count(self) -> int:
        return 1 if self.nodes == "hang" else 2

    @property
    def name(self) -> str:
        return f"{self.fault} {self.moment}".replace(" ", "-")


NO_RESTARTS = {"time_limit": 0, "failure": 0, "node_failure": 0}
LEFT_OUT = {"checks": ["gpus"], "on_bad_node": "exclude"}
HANGS = {"checks": ["gpus"], "seconds": 600}
FAIL_ONCE = "[[ $SLURM_RESTART_COUNT != 2 ]]"

CASES = (
    Case(
        *("bad nodes", "in the first and second attempt, an error in the third", "last", 2),
        *(("bad_node", "bad_node", "failure", "completed"), 0),
        *({"preflight": LEFT_OUT}, {**NO_RESTARTS, "failure": 1}, FAIL_ONCE),
    ),
    Case(
        *("bad node", "and no restart is allowed", "last", 1, ("bad_node", "completed"), 0),
        *({"preflight": LEFT_OUT}, NO_RESTARTS),
    ),
    Case(
        *("bad node", "which is to end the job", "last", 1, ("not_started",), FAILED),
        *({"preflight": ["gpus"]}, {**NO_RESTARTS, "failure": 3, "node_failure": 3}),
    ),
    Case(
        *("bad nodes", "all of them", "each", 1, ("not_started",), FAILED),
        *({"preflight": LEFT_OUT}, {**NO_RESTARTS, "failure": 3, "node_failure": 3}),
    ),
    Case(
        *("time limit", "while a check hangs", "hang", 1, ("time_limit", "completed"), 0),
        *({"preflight": HANGS}, {**NO_RESTARTS, "time_limit": 1}, "true"),
        ("--batch", "--signal=USR1"),  # what Slurm does for --signal=B:USR1@...
    ),
    Case(
        *("real time limit", "while a check hangs", "hang", 1, ("time_limit",), 124),
        {"preflight": HANGS, "time_limit": "00:01:00"},
    ),
    Case(
        *("scancel", "while a check hangs", "hang", 1, ("cancelled",), 143),
        *({"preflight": HANGS}, {**NO_RESTARTS, "time_limit": 3, "failure": 3}, "true", ()),
    ),
)
ARRAY = Case(
    *("bad node", "of each task of an array", "last", 1, ("bad_node", "completed"), 0),
    *({"preflight": LEFT_OUT}, NO_RESTARTS),
)
NODES = 16  # all that the cluster has; the jobs need as many, and some in place of the bad


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    folder = tmp_path_factory.mktemp("bad-nodes")
    with running_lab(shape_of("p4d-a100", nodes=NODES), folder, slurm) as running:
        yield running


@pytest.fixture(scope="module")
def submitted(
    lab: Lab, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> dict[str, Running]:
    """Each case's job. The slowest are those that wait for a time limit: all run at once."""
    site = pathlib.Path(__file__).parents[2] / "examples" / "site.yaml"
    folder = tmp_path_factory.mktemp("specs")
    (folder / "clusterjobs").mkdir()
    (folder / "clusterjobs/site.yaml").write_text(site.read_text())
    programs = lab.folder.shared("/fsx") / "bin"
    programs.mkdir()
    (programs / "nvidia-smi").write_text(NVIDIA_SMI)
    (programs / "nvidia-smi").chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CONFIG_HOME", str(folder))
        jobs = Jobs(lab, folder)
        return {case.name: submit(jobs, case) for case in (*CASES, ARRAY)}


def submit(jobs: Jobs, case: Case) -> Running:
    spec = spec_of(jobs, case)
    if case is ARRAY:
        spec["sbatch"] = {"array": "1-2"}
        spec["checkpoints"]["path"] += "/{{ job.array_index }}"
    script = jobs.render(spec)
    folder = jobs.lab.folder.shared("/fsx") / "marks" / case.name
    folder.mkdir(parents=True)
    return Running(jobs.lab, jobs.lab.sbatch(script, cwd=script.parent), folder)


def spec_of(jobs: Jobs, case: Case) -> dict[str, Any]:
    marks = f"/fsx/marks/{case.name}"
    acted = {"PATH": "/fsx/bin:${PATH}", "FAULT": case.nodes, "BAD_UNTIL": str(case.bad_until)}
    spec = {
        "cluster": "p4d-a100",
        "nodes": case.count,
        "framework": "command",
        "command": ["bash", "-c", f"echo ran >> {marks}/ranks; {case.command}"],
        "env": {**acted, "MARK": f"{marks}/hangs"},
        "time_limit": "00:30:00",
    }
    if case.restarts is not None:
        spec["restarts"] = {**case.restarts, "grace_seconds": 5}
        spec["checkpoints"] = {"path": f"{marks}/checkpoints"}
    return jobs.spec(case.name, **{**spec, **case.keys})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_what_is_not_the_trainings_fault_costs_no_restart(
    case: Case, submitted: dict[str, Running], fault_table: list[str]
) -> None:
    job = submitted[case.name]
    if case.tell is not None:
        job.reach("hangs")
        job.scancel(*case.tell)
    exit_code = job.wait()
    records = job.records()
    reasons = tuple(one["reason"] for one in records)
    fault_table.append(f"{told(case, reasons)}; exit code {exit_code}")
    assert reasons == case.reasons, job.log()
    last = [line for line in job.log().splitlines() if "ended with exit code" in line][-1]
    assert f"ended with exit code {case.exit_code} after" in last, job.log()
    if reasons[-1] != "cancelled" and case.fault != "real time limit":  # Slurm's own words for both
        assert exit_code == case.exit_code, job.log()
    trained = [one for one in records if one["reason"] in ("completed", "failure")]
    ranks = job.folder / "ranks"
    assert len(ranks.read_text().split() if ranks.exists() else ()) == (
        2 * case.count * len(trained)
    ), job.log()
    assert_left_out(job, records)
    assert_no_token_is_left(job)


def told(case: Case, reasons: tuple[str, ...]) -> str:
    trained = sum(reason in ("completed", "failure") for reason in reasons)
    return (
        f"preflight, {case.fault}, {case.moment}: {', '.join(reasons)}; "
        f"ranks were started by {trained} of {len(reasons)} attempts"
    )


def test_each_task_of_an_array_leaves_out_its_own_bad_node(
    submitted: dict[str, Running], fault_table: list[str]
) -> None:
    array = submitted[ARRAY.name]
    for number in (1, 2):
        task = Running(array.lab, raw_id(array, number), array.folder)
        exit_code = task.wait()
        reasons = tuple(one["reason"] for one in task.records())
        fault_table.append(f"{told(ARRAY, reasons)}; task {number}; exit code {exit_code}")
        assert (reasons, exit_code) == (ARRAY.reasons, 0), task.log()
        assert_left_out(task, task.records())
    assert len((array.folder / "ranks").read_text().split()) == 2 * 4


def raw_id(array: Running, number: int) -> str:
    """The id that Slurm gives a task as a job of its own."""

    name = f"{array.job_id}_{number}"
    show = ["scontrol", "--oneliner", "show", "job", name]

    def ask() -> str:  # while it waits it is shown as one with the rest of its array
        shown = array.lab.run(show).stdout
        return shown if f" ArrayTaskId={number} " in shown else ""

    shown = until(ask, TIMEOUT, lambda: f"{name} does not start")
    return str(shown).split()[0].removeprefix("JobId=")


def assert_left_out(job: Running, records: list[dict[str, Any]]) -> None:
    """The last of each attempt's nodes, and they alone, for this job."""
    bad = [hosts(job.lab, one["nodes"])[-1] for one in records if one["reason"] == "bad_node"]
    shown = job.lab.run(["scontrol", "--oneliner", "show", "job", job.job_id]).stdout
    (own,) = (line for line in shown.splitlines() if line.startswith(f"JobId={job.job_id} "))
    (excluded,) = (word[12:] for word in own.split() if word.startswith("ExcNodeList="))
    assert sorted(hosts(job.lab, excluded)) == sorted(bad)
    for before, after in zip(bad, records[1:], strict=False):
        assert before not in hosts(job.lab, after["nodes"])


def hosts(lab: Lab, nodes: str) -> list[str]:
    if nodes == "(null)":
        return []
    return lab.run(["scontrol", "show", "hostnames", nodes]).stdout.split()


def assert_no_token_is_left(job: Running) -> None:
    """Files by which the nodes see that a folder is the same for all."""
    folder = job.lab.folder.shared("/fsx") / "logs" / job.job_id
    assert not list(folder.glob(".clusterjobs-*"))
