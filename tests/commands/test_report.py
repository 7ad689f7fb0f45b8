"""What the arguments of `clusterjobs report` name, and what it says of those that name nothing."""

from __future__ import annotations

import gzip
import io
import json
import pathlib
import sys
from typing import Any

import pytest
from stand_in_squeue import row, write_squeue
from sweep_on_disk import SweepOnDisk

from clusterjobs.report import read as specs

SPEC = """\
name: tiny
cluster: small
framework: command
command: ["true"]
logs: {logs}
"""
RECORD = {"reason": "completed", "checkpoint": "", "exit_code": 0, "nodes": "n[1-2]"}


def steps(first: int, last: int, rate: float = 50.0) -> str:
    lines = range(first, last + 1)
    return "".join(f"step {one}/40 loss {5 - one / 10} samples/s {rate}\n" for one in lines)


def write_job(folder: pathlib.Path, log: str, *attempts: dict[str, Any]) -> pathlib.Path:
    """The folder of a job of two nodes x two ranks, with its log and its records."""
    folder.mkdir(parents=True)
    (folder / "job.log").write_text(log)
    derived = {"world_size": 4, "ranks_per_node": 2}
    plan = {"name": "tiny", "framework": "command", "spec": {"file": "exp.yaml", "set": []}}
    (folder / "plan.json").write_text(json.dumps({**plan, "derived": derived}))
    lines = [
        json.dumps({**RECORD, "attempt": number, **one}) for number, one in attempts_of(attempts)
    ]
    (folder / "attempts.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return folder


def attempts_of(attempts: tuple[dict[str, Any], ...]) -> list[tuple[int, dict[str, Any]]]:
    return list(enumerate(attempts, 1))


@pytest.fixture
def spec(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """Of two jobs in ./logs: 7 had two attempts and has ended, 12 is running."""
    write_job(
        folder / "logs" / "7",
        steps(1, 20) + "clusterjobs: attempt 2, from checkpoint step-10\n" + steps(11, 40),
        {"reason": "time_limit", "seconds": 100, "ended": 1100},
        {"seconds": 200, "ended": 1500, "began": 1300, "submitted": 1100},
    )
    write_job(folder / "logs" / "12", steps(1, 8, 25.0))
    programs = folder / "bin"
    programs.mkdir()
    write_squeue(programs, row("12", "RUNNING", time_left="3:00", nodes="n[1-2]"))
    monkeypatch.setenv("PATH", str(programs))
    (folder / "exp.yaml").write_text(SPEC.format(logs=folder / "logs"))
    return folder / "exp.yaml"


def runs(clusterjobs, *words: object) -> list[dict[str, Any]]:
    done = clusterjobs("report", *words, "--json")
    assert done.code == 0, done.err
    return list(json.loads(done.out)["runs"])


def test_a_spec_names_its_newest_job(clusterjobs, spec: pathlib.Path) -> None:
    (run,) = runs(clusterjobs, spec)
    assert (run["name"], run["job_id"], run["steps"]) == ("tiny", "12", 8)


@pytest.mark.parametrize("words", [("exp.yaml", "7"), ("7",), ("logs/7",), ("logs/7/job.log",)])
def test_a_job_is_named_by_its_id_its_folder_or_its_log(
    clusterjobs, spec: pathlib.Path, words: tuple[str, ...]
) -> None:
    (run,) = runs(clusterjobs, *words)
    assert (run["job_id"], run["framework"], run["nodes"]) == ("7", "command", 2)
    assert (run["steps"], run["lost_steps"], run["paid_seconds"]) == (40, 10, 300)
    shown = [(one["number"], one["reason"], one["seconds"]) for one in run["attempts"]]
    assert shown == [(1, "time_limit", 100), (2, "completed", 200)]
    assert run["attempts"][1]["queue_seconds"] == 200


def test_a_folder_of_jobs_names_all_of_them(clusterjobs, spec: pathlib.Path) -> None:
    found = runs(clusterjobs, "logs")
    assert sorted(run["job_id"] for run in found) == ["12", "7"]


def test_several_logs_are_compared_in_the_order_given(clusterjobs, spec: pathlib.Path) -> None:
    done = clusterjobs("report", "logs/7/job.log", "logs/12/job.log")
    assert done.code == 0
    assert done.out.index("40") < done.out.index("25")
    found = runs(clusterjobs, "logs/12/job.log", "logs/7/job.log")
    assert [run["job_id"] for run in found] == ["12", "7"]
    assert [run["samples_per_second"] for run in found] == [25, 50]


def test_ranks_and_nodes_that_the_job_does_not_record_are_those_of_the_spec(
    clusterjobs, spec: pathlib.Path
) -> None:
    spec.write_text(spec.read_text() + "nodes: 2\n")
    folder = spec.parent / "logs" / "12"
    (folder / "plan.json").write_text('{"name": "tiny", "spec": {"file": "exp.yaml"}}')
    (run,) = runs(clusterjobs, str(spec), "12")
    assert (run["nodes"], run["gpus"]) == (2, None)  # c6i.xlarge has no GPU


def test_logs_of_one_file_name_are_called_by_their_paths(
    clusterjobs, folder: pathlib.Path, spec: pathlib.Path
) -> None:
    for name in ("a/train.log", "b/train.log", "other.log"):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(steps(1, 12))
    found = runs(clusterjobs, "a/train.log", "b/train.log", "other.log")
    assert [one["name"] for one in found] == ["a/train.log", "b/train.log", "other.log"]
    (alone,) = runs(clusterjobs, "a/train.log")
    assert alone["name"] == "train.log"


def test_a_sweep_names_the_newest_job_of_each_point(
    clusterjobs, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    sweep = SweepOnDisk(folder, 3)
    for index, job_id, rate in ((0, "20", 10.0), (0, "30", 20.0), (2, "31", 40.0)):
        sweep.job(index, job_id, "completed", steps(1, 12, rate))
    found = runs(clusterjobs, sweep.spec)
    assert [run["samples_per_second"] for run in found] == [20, 40]
    names = [sweep.points[index].name for index in (0, 2)]
    assert [run["name"] for run in found] == names
    assert [run["point"] for run in found] == [{"args.lr": "0.5"}, {"args.lr": "2.5"}]
    done = clusterjobs("report", str(sweep.spec))
    head, first = done.out.splitlines()[1:3]
    assert head.split()[:3] == ["run", "args.lr", "steps"]  # a sweep without GPUs
    missing = sweep.points[1].name
    assert done.err == f"{sweep.spec}: 1 of 3 points has no log yet: {missing}\n"
    (alone,) = runs(clusterjobs, str(sweep.folder / names[0] / "30"))
    assert alone["name"] == names[0]
    assert first.split()[2] == "0.5"  # behind the name and the job's id


MODEL = """\
cluster: p4d-a100
framework: megatron-lm
workdir: /fsx/Megatron-LM
script: pretrain_gpt.py
model: {layers: 24, hidden: 1024, heads: 16, sequence: 1024, vocab: 50304}
batch: {micro: 8, global: 64}
args: {train-iters: 100, lr: 1e-4}
"""


def test_points_of_a_sweep_have_an_efficiency_and_their_spec_is_read_once(
    clusterjobs, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    sweep = SweepOnDisk(folder, 3)
    of_a_command = 'cluster: small\nframework: command\ncommand: ["true"]\nargs: {lr: 1}\n'
    text = sweep.spec.read_text()
    assert of_a_command in text
    sweep.spec.write_text(text.replace(of_a_command, MODEL))
    for index in range(3):
        sweep.job(index, str(20 + index), "completed", steps(1, 12, 20.0))
    read: list[object] = []

    def counting(*args: object, **more: object) -> object:
        read.append(args)
        return load(*args, **more)

    load = specs.load
    monkeypatch.setattr(specs, "load", counting)
    found = runs(clusterjobs, sweep.spec)
    assert len(read) == 1
    assert len(found) == 3
    assert all(0 < run["mfu"] < 1 for run in found)


def test_nodes_of_roles_are_paid_and_do_not_train(clusterjobs, folder: pathlib.Path) -> None:
    (folder / "train.log").write_text(steps(1, 12, 20.0))
    head = "name: a\ntime_limit: 1:00:00\n" + MODEL
    role = "roles: {server: {nodes: 2, command: [serve]}}\n"
    (folder / "plain.yaml").write_text(f"{head}nodes: 1\n")
    (folder / "roles.yaml").write_text(f"{head}nodes: 3\n{role}")
    plain, with_roles = (
        runs(clusterjobs, "train.log", "--spec", name)[0] for name in ("plain.yaml", "roles.yaml")
    )
    assert (with_roles["nodes"], with_roles["gpus"]) == (1, 8)
    assert with_roles["mfu"] == plain["mfu"]
    assert with_roles["cost"]["dollars"] == pytest.approx(3 * plain["cost"]["dollars"])


@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
def test_standard_input_is_a_log(
    clusterjobs, monkeypatch: pytest.MonkeyPatch, is_packed: bool
) -> None:
    data = steps(1, 12).encode()
    stdin = io.TextIOWrapper(io.BytesIO(gzip.compress(data) if is_packed else data))
    monkeypatch.setattr(sys, "stdin", stdin)
    (run,) = runs(clusterjobs, "-")
    assert (run["steps"], run["samples_per_second"]) == (12, 50)


def test_a_log_elsewhere_has_what_its_spec_knows(
    clusterjobs, folder: pathlib.Path, spec: pathlib.Path
) -> None:
    text = SPEC.format(logs="logs") + "report: {step: 'Schritt (\\d+)', loss: 'Fehler ([\\d.]+)'}\n"
    (folder / "own.yaml").write_text(text)
    lines = "".join(f"Schritt {one}: Fehler {one / 4}\n" for one in range(1, 9))
    (folder / "train.log").write_text(lines)
    (run,) = runs(clusterjobs, "train.log", "--spec", "own.yaml")
    assert run["series"]["loss"] == [[one, one / 4] for one in range(1, 9)]


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("missing.log",), "missing.log"),
        (("99",), "the spec of job 99 is not in this folder"),
        (("exp.yaml", "99"), "99"),
        (("missing.yaml",), "missing.yaml"),
        (("empty",), "has no logs of jobs"),
        (("logs/7/job.log", "--spec", "missing.yaml"), "missing.yaml"),
        (("logs/7/job.log", "--against", "missing.yaml"), "missing.yaml"),
        (("logs/7/job.log", "--html", "nowhere/report.html"), "nowhere"),
        (("logs/7/job.log", "--csv", "nowhere/steps.csv"), "nowhere"),
    ],
    ids=lambda one: one if isinstance(one, str) else "-".join(one).replace("/", "."),
)
def test_what_is_not_there_is_named(
    clusterjobs, folder: pathlib.Path, spec: pathlib.Path, words: tuple[str, ...], expected: str
) -> None:
    (folder / "empty").mkdir()
    done = clusterjobs("report", *words)
    assert done.code in (1, 2), done.out + done.err
    assert expected in done.err
    assert "internal error" not in done.err


def test_a_job_that_has_not_started_has_no_log(clusterjobs, folder: pathlib.Path) -> None:
    (folder / "logs" / "5").mkdir(parents=True)
    (folder / "exp.yaml").write_text(SPEC.format(logs=folder / "logs"))
    done = clusterjobs("report", "exp.yaml", "5")
    assert done.code == 1
    assert "no job of exp.yaml" in done.err


def test_hostile_names_and_records_do_nothing(clusterjobs, folder: pathlib.Path) -> None:
    job = write_job(folder / "logs" / "7", steps(1, 12))
    plan = {"name": "\x1b[2J=HYPERLINK(1)<b>", "framework": ["x"], "derived": {"world_size": "4"}}
    (job / "plan.json").write_text(json.dumps(plan))
    (job / "attempts.jsonl").write_text('{"attempt": "x"}\n[]\n{"attempt": 1, "seconds": "1"}\n')
    done = clusterjobs("report", "logs/7")
    assert done.code == 0, done.err
    assert "\x1b[2J" not in done.out
    assert "steps       12" in done.out


def scaling_job(folder: pathlib.Path, job_id: str, nodes: int, per_node: int, log: str) -> None:
    job = write_job(folder / "logs" / job_id, log)
    derived = {"world_size": nodes * per_node, "ranks_per_node": per_node}
    plan = {"name": f"{nodes}-nodes", "framework": "x", "derived": derived}
    plan["derived"] = {**derived, "gpus_per_node": per_node}
    (job / "plan.json").write_text(json.dumps(plan))


def scaling(clusterjobs) -> list[list[str]]:
    done = clusterjobs("report", "logs", "--json")
    assert done.code == 0, done.err
    tables = json.loads(done.out)["tables"]
    (table,) = (one for one in tables if "scal" in one["title"].lower())
    return [table["head"], *table["rows"], table["notes"]]


def test_two_machines_on_a_slow_network_are_said_to_be_slower(
    clusterjobs, folder: pathlib.Path
) -> None:
    """As in a report of two one-GPU machines with 10 Mbit/s between them: 90 s against 30 s."""
    for job_id, nodes, rate in (("1", 1, 300.0), ("2", 2, 50.0)):
        lines = (f"Iter #{one}: {rate + one % 3} img/sec per GPU\n" for one in range(12))
        scaling_job(folder, job_id, nodes, 1, f"Number of GPUs: {nodes}\n" + "".join(lines))
    head, first, second, _ = scaling(clusterjobs)
    efficiency = next(place for place, name in enumerate(head) if "efficiency" in name)
    assert second[efficiency].startswith(("16.", "17."))
    assert first[efficiency] != second[efficiency]


def test_words_per_second_that_grow_with_the_gpus_scale_well(
    clusterjobs, folder: pathlib.Path
) -> None:
    line = (
        "2021-01-01 12:0{}:{:02} | INFO | train_inner | epoch 001:      5 / 99 loss=7.719, wps={}, "
        "ups=0.5, wpb={}, bsz={}, num_updates={}, lr=0.0005, gnorm=1.2\n"
    )
    for job_id, nodes in (("1", 1), ("2", 2), ("8", 8)):
        words = [(8000 + 10 * (one % 3)) * nodes for one in range(1, 13)]
        log = "".join(
            line.format(*divmod(10 * n, 60), w, 16000 * nodes, 32 * nodes, 5 * n)
            for n, w in enumerate(words, 1)
        )
        scaling_job(folder, job_id, nodes, 8, log)
    rows = scaling(clusterjobs)
    efficiency = next(place for place, name in enumerate(rows[0]) if "efficiency" in name)
    assert [row[efficiency] for row in rows[2:4]] == ["100.0 %", "100.0 %"]
