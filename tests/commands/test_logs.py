"""logs: of one rank, the last lines, of the points of a sweep; with a stand-in for squeue."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest
from stand_in_squeue import row, write_squeue

SPEC = "name: tiny\ncluster: small\nframework: command\ncommand: [./train]\nlogs: {logs}\n"
SWEEP = SPEC + "sweep: {{grid: {{args.lr: [1e-3, 3e-4], args.micro: [4, 8]}}}}\n"
BY_RANK = {"world_size": 4, "ranks_per_node": 2, "ntasks_per_node": 2}
BY_NODE = {"world_size": 4, "ranks_per_node": 2, "ntasks_per_node": 1}


@pytest.fixture(autouse=True)
def queue(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """`queue(*jobs)`: what squeue knows; nothing at first."""
    programs = folder.parent / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))
    write_squeue(programs)
    (folder / "exp.yaml").write_text(SPEC.format(logs=folder / "logs"))
    (folder / "sweep.yaml").write_text(SWEEP.format(logs=folder / "logs"))
    return lambda *jobs: write_squeue(programs, *jobs)


def write_job(
    job: pathlib.Path, log: str, launcher: str = "srun", derived: dict[str, int] = BY_RANK
) -> None:
    job.mkdir(parents=True)
    spec = {"file": "exp.yaml", "set": []}
    plan = {"name": "tiny", "spec": spec, "launcher": launcher, "derived": derived}
    (job / "plan.json").write_text(json.dumps(plan))
    (job / "job.log").write_text(log)
    record = {"attempt": 1, "reason": "completed", "exit_code": 0, "ended": 5}
    (job / "attempts.jsonl").write_text(json.dumps(record) + "\n")


LOG = "clusterjobs: attempt 1\n0: a\n3: b\n3: c\n1: d\n3: [rank3]: e\n0: f\n"


def test_the_lines_of_a_rank_without_labels(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    write_job(folder / "logs/7", LOG)
    assert clusterjobs("logs", "exp.yaml", "--rank", "3").out == "b\nc\ne\n"
    assert clusterjobs("logs", "exp.yaml", "--rank", "3", "--tail", "2").out == "c\ne\n"
    assert clusterjobs("logs", "exp.yaml", "7", "--tail", "1").out == "0: f\n"
    assert clusterjobs("logs", "exp.yaml", "--tail", "0").out == ""
    answer = json.loads(clusterjobs("logs", "exp.yaml", "--tail", "2", "--json").out)
    log = str(folder / "logs/7/job.log")
    assert answer == {"job_id": "7", "log": log, "lines": ["3: [rank3]: e", "0: f"]}
    schema = json.loads(clusterjobs("schema", "--of", "logs").out)
    jsonschema.validate(answer, schema)


def test_a_job_id_alone_is_enough_wherever_its_spec_is_known(
    clusterjobs: Callable[..., Any],
    folder: pathlib.Path,
    queue: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    write_job(folder / "logs/7", LOG)
    write_job(folder / "logs/8", "0: g\n")
    assert clusterjobs("logs", "7", "--rank", "3").out == "b\nc\ne\n"
    shown = clusterjobs("status", "7")  # Slurm has forgotten it
    assert (shown.code, "7    ended" in shown.out, "8  " in shown.out) == (0, True, False)
    (folder / "elsewhere").mkdir()
    monkeypatch.chdir(folder / "elsewhere")
    lost = clusterjobs("logs", "7")
    assert (lost.code, lost.err) == (
        1,
        "the spec of job 7 is not in this folder, nor where the job was submitted\n"
        "   hint: name it: clusterjobs logs exp.yaml 7\n",
    )
    queue(row("7", "COMPLETED", workdir=str(folder)))
    assert clusterjobs("logs", "7", "--tail", "1").out == "0: f\n"
    (folder / "logs/7/started").write_text("2\n")
    unrecorded = clusterjobs("logs", "7", "--tail", "1").err
    assert unrecorded.endswith(f"clusterjobs submit {folder / 'exp.yaml'}\n")


def test_a_rank_that_printed_nothing_or_does_not_exist(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    write_job(folder / "logs/7", LOG)
    silent = clusterjobs("logs", "exp.yaml", "--rank", "2")
    assert (silent.code, silent.out) == (1, "")
    assert silent.err == (
        f"no line of rank 2 in {folder}/logs/7/job.log\n"
        "   hint: srun labels every line with its rank: this one printed nothing\n"
    )
    unknown = clusterjobs("logs", "exp.yaml", "--rank", "4")
    assert unknown.code == 1
    assert unknown.err == "there is no rank 4\n   hint: the job has the ranks 0 to 3\n"


def test_where_only_the_node_is_labelled_this_is_said(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    write_job(folder / "logs/7", "0: a\n1: b\n1: [rank3]: c\n1: d\n", "torchrun", BY_NODE)
    done = clusterjobs("logs", "exp.yaml", "--rank", "2")
    assert (done.code, done.out) == (0, "b\nd\n")
    assert done.err == (
        "torchrun labels lines with their node: what names no rank is of one of the ranks 2 to 3 "
        "(to label them: `torchrun: {tee: 3}` in the spec)\n"
    )


def test_where_no_line_is_labelled_this_is_said(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    write_job(folder / "logs/7", "0: n1: a\n0: n2: b\n", "deepspeed-pdsh", BY_NODE)
    done = clusterjobs("logs", "exp.yaml", "--rank", "0")
    assert (done.code, done.out) == (1, "")
    assert "deepspeed-pdsh does not label lines with their rank" in done.err


def test_a_damaged_plan_does_not_say_the_ranks(
    clusterjobs: Callable[..., Any], folder: pathlib.Path
) -> None:
    write_job(folder / "logs/7", LOG, derived={"world_size": -1})
    done = clusterjobs("logs", "exp.yaml", "--rank", "0")
    assert done.code == 1
    assert "does not say how many ranks there are" in done.err


def test_the_log_of_a_role(clusterjobs: Callable[..., Any], folder: pathlib.Path) -> None:
    job = folder / "logs/7"
    write_job(job, LOG)
    without = clusterjobs("logs", "exp.yaml", "--role", "server")
    assert without.err.startswith("job 7 has no role server\n")
    plan = json.loads((job / "plan.json").read_text())
    roles: list[object] = [{"name": "server", "first_node": 2, "nodes": 1, "port": 8000}]
    (job / "plan.json").write_text(json.dumps({**plan, "roles": [*roles, {"name": 7}, "x"]}))
    assert clusterjobs("logs", "exp.yaml", "--role", "server").out == ""
    (job / "server.log").write_text("0: up\n0: asked\n")
    assert clusterjobs("logs", "exp.yaml", "--role", "server", "--tail", "1").out == "0: asked\n"
    wrong = clusterjobs("logs", "exp.yaml", "--role", "sever")
    assert (wrong.code, wrong.err) == (
        1,
        "job 7 has no role sever\n   hint: did you mean server?\n",
    )
    assert clusterjobs("logs", "exp.yaml", "--role", "server", "--follow").code == 2
    shown = clusterjobs("status", "exp.yaml", "7").out
    assert f"role    nodes  port  log\nserver  3      8000  {job}/server.log\n" in shown
    data = json.loads(clusterjobs("status", "exp.yaml", "7", "--json").out)
    assert data["jobs"][0]["roles"] == [
        {"role": "server", "nodes": "3", "port": 8000, "log": f"{job}/server.log"}
    ]


@pytest.fixture
def points(folder: pathlib.Path) -> list[str]:
    """The points of sweep.yaml; the first has completed, and the last was never submitted."""
    from clusterjobs.runs.jobs.states import sweep_jobs

    sweep = sweep_jobs(pathlib.Path("sweep.yaml"))[1]
    assert sweep
    names = list(sweep.points)
    write_job(folder / "logs/tiny" / names[0] / "70", "0: first\n")
    record = {"token": "t70", "job_id": 70, "cluster": None, "user": "ann", "time": 1}
    more = {"spec": "sweep.yaml", "array": True, "content": {}}
    tasks = {str(index): name for index, name in enumerate(names[:3])}
    (folder / "logs/tiny/submissions.jsonl").write_text(
        json.dumps({**record, **more, "points": tasks}) + "\n"
    )
    return names


def test_a_point_is_found_by_index_name_part_and_job(
    clusterjobs: Callable[..., Any], points: list[str]
) -> None:
    for which in ("0", points[0], "lr=1e-3,micro=4", "70"):
        assert clusterjobs("logs", "sweep.yaml", which).out == "0: first\n"
    ambiguous = clusterjobs("logs", "sweep.yaml", "micro=8")
    assert ambiguous.code == 1
    assert ambiguous.err == (
        f"'micro=8' is a part of several points' names\n   hint: one of {points[1]}, {points[3]}\n"
    )
    assert "no point 7" in clusterjobs("logs", "sweep.yaml", "7").err


def test_an_earlier_job_of_a_point_that_never_started_again_is_found_by_its_id(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, points: list[str]
) -> None:
    record = {"token": "u", "job_id": 999999, "cluster": None, "user": "ann", "time": 9e9}
    more = {"spec": "sweep.yaml", "array": True, "points": {"0": points[0]}, "content": {}}
    (file,) = folder.rglob("submissions.jsonl")
    with file.open("a") as records:
        records.write(json.dumps(record | more) + "\n")
    (earlier,) = (job for job in (file.parent / points[0]).iterdir() if job.is_dir())
    assert clusterjobs("logs", "sweep.yaml", earlier.name).out == "0: first\n"


def test_a_point_that_waits_or_was_never_submitted(
    clusterjobs: Callable[..., Any], points: list[str], queue: Callable[..., None]
) -> None:
    queue(row("70", "PENDING", array="70", index="1", reason="JobArrayTaskLimit"))
    waits = clusterjobs("logs", "sweep.yaml", "1")
    assert waits.code == 1
    assert "job 70_1 is pending: its array has reached its limit of running tasks" in waits.err
    assert "clusterjobs logs sweep.yaml 1 --follow" in waits.err
    never = clusterjobs("logs", "sweep.yaml", "3")
    assert never.code == 1
    assert never.err == (
        f"point {points[3]} was never submitted\n"
        "   hint: clusterjobs submit sweep.yaml --points 3\n"
    )


def test_a_running_point_is_followed_by_its_own_id(
    clusterjobs: Callable[..., Any],
    points: list[str],
    queue: Callable[..., None],
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    waiting, running = ("70", "PENDING"), ("74", "RUNNING")
    task = {"array": "70", "index": "2"}
    queue(row(*waiting, **task, reason="Resources"))
    job = folder / "logs/tiny" / points[2] / "74"

    def start(_: float) -> None:
        monkeypatch.setattr("time.sleep", end)
        queue(row(*running, **task))
        write_job(job, "0: third\n")

    def end(_: float) -> None:
        queue(row("74", "COMPLETED", **task))
        (job / "job.log").write_text("0: third\n0: end\n")

    monkeypatch.setattr("time.sleep", start)
    monkeypatch.setattr("clusterjobs.runs.follow.one_job._FIRST", 0)
    monkeypatch.setattr("clusterjobs.runs.follow.one_job._LAST", 0)
    done = clusterjobs("logs", "sweep.yaml", "2", "--follow", "--rank", "0")
    assert (done.code, done.out) == (0, "third\nend\n")
    assert done.err == "job 70_2 is pending: no nodes are free yet (Resources)\n"


def test_ctrl_c_ends_following(
    clusterjobs: Callable[..., Any],
    queue: Callable[..., None],
    folder: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    write_job(folder / "logs/7", LOG)
    queue(row("7", "RUNNING"))
    monkeypatch.setattr("time.sleep", interrupt)
    done = clusterjobs("logs", "exp.yaml", "--follow", "--tail", "2")
    assert (done.code, done.out) == (130, "3: [rank3]: e\n0: f\n")
    assert done.err.strip() == "stopped"


def test_hostile_words_are_no_points(clusterjobs: Callable[..., Any], points: list[str]) -> None:
    for which in ("9" * 5000, "\x1b[2J", "../..", "*", "", "9_9", "-1e9", "٣"):
        done = clusterjobs("logs", "--", "sweep.yaml", which)
        assert (done.code, done.out) == (1, "")
        assert "\x1b" not in done.err
        assert clusterjobs("logs", "--", "exp.yaml", which).code == 1


def test_without_a_point_the_points_are_listed(
    clusterjobs: Callable[..., Any], points: list[str], queue: Callable[..., None]
) -> None:
    queue(row("71", "RUNNING", array="70", index="1"))
    done = clusterjobs("logs", "sweep.yaml")
    assert done.code == 1
    lines = done.err.splitlines()
    assert [line.split() for line in lines[:4]] == [
        ["1", points[1], "running"],
        ["2", points[2], "lost"],
        ["0", points[0], "completed"],
        ["3", points[3], "missing"],
    ]
    assert lines[4:] == [
        "sweep.yaml is a sweep of 4 points: say which one",
        "   hint: clusterjobs logs sweep.yaml 1",
    ]
