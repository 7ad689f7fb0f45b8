"""status of several specs, of folders, and of one's own jobs."""

from __future__ import annotations

import json
import os
import pathlib
import re
from collections.abc import Callable
from typing import Any

import pytest
from stand_in_squeue import row, squeue_calls, write_squeue
from sweep_on_disk import SweepOnDisk

SPEC = "name: {name}\ncluster: small\nframework: command\ncommand: ['true']\nlogs: {logs}\n"
COMPLETED = '{"attempt": 1, "reason": "completed", "exit_code": 0, "seconds": 7, "ended": 5}\n'
FAILURE = '{"attempt": 1, "reason": "failure", "exit_code": 1, "seconds": 7, "ended": 5}\n'


@pytest.fixture
def slurm(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """A folder on PATH, alone, with a squeue that knows no jobs."""
    folder = tmp_path / "bin"
    folder.mkdir()
    write_squeue(folder)
    monkeypatch.setenv("PATH", str(folder))
    return folder


@pytest.fixture
def specs(folder: pathlib.Path, slurm: pathlib.Path) -> pathlib.Path:
    """The working folder, with specs/a.yaml and specs/below/b.yaml, whose jobs are 5 and 6."""
    (folder / "specs" / "below").mkdir(parents=True)
    for name, file, job_id, record in (
        ("a", "specs/a.yaml", "5", COMPLETED),
        ("b", "specs/below/b.yaml", "6", FAILURE),
    ):
        (folder / file).write_text(SPEC.format(name=name, logs=folder / "logs"))
        job = folder / "logs" / job_id
        job.mkdir(parents=True)
        plan = {"name": name, "spec": {"file": pathlib.Path(file).name, "set": []}}
        (job / "plan.json").write_text(json.dumps(plan))
        (job / "attempts.jsonl").write_text(record)
        (job / "job.log").write_text("step 3\n0: Traceback (most recent call last):\n0: E: no\n")
    return folder


def job_ids(done: Any) -> list[str]:
    return [job["job_id"] for job in json.loads(done.out)["jobs"]]


def test_several_specs_are_one_view(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, slurm: pathlib.Path
) -> None:
    done = clusterjobs("status", "specs/a.yaml", "specs/below/b.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        "specs/a.yaml",
        "job  state  attempts  step  last checkpoint  why",
        "5    ended  1         3                      completed, exit code 0",
        "",
        "specs/below/b.yaml",
        "job  state  attempts  step  last checkpoint  why",
        "6    ended  1         3                      failure, exit code 1",
        "",
        "job 6, the first traceback of rank 0:",
        "  Traceback (most recent call last):",
        "  E: no",
        "",
        "2 jobs: 1 completed, 1 failed",
    ]
    assert squeue_calls(slurm) == 1


def test_a_folder_means_its_specs_or_its_jobs(
    clusterjobs: Callable[..., Any], specs: pathlib.Path
) -> None:
    (specs / "specs" / "without-jobs.yaml").write_text(SPEC.format(name="c", logs=specs / "logs"))
    (specs / "specs" / "base.yaml").write_text("cluster: small\nframework: command\n")
    with (specs / "specs" / "a.yaml").open("a") as file:
        file.write("extends: base.yaml\n")
    for target in ("specs", "logs", "."):
        done = clusterjobs("status", target, "--json")
        assert (job_ids(done), done.err) == (["5", "6"], ""), target
    assert job_ids(clusterjobs("status", "logs/6", "--json")) == ["6"]
    empty = specs / "nothing"
    empty.mkdir()
    done = clusterjobs("status", empty)
    assert done.code == 1
    assert "has no specs, and no folders of jobs" in done.err


def test_the_record_of_plain_jobs_makes_their_folder_no_sweep(
    clusterjobs: Callable[..., Any], specs: pathlib.Path
) -> None:
    known = {"job_id": 5, "user": "me", "time": 1, "spec": "a.yaml", "array": False}
    line = {"token": "0f", **known, "points": {"": "a"}, "content": {"a": "0f"}}
    (specs / "logs" / "submissions.jsonl").write_text(json.dumps(line) + "\n")
    done = clusterjobs("status", "logs", "--json")
    assert (job_ids(done), json.loads(done.out)["sweeps"]) == (["5", "6"], [])
    assert "logs is no folder of a sweep" in clusterjobs("results", "logs").err


def test_a_wrong_spec_in_a_folder_hides_no_other(
    clusterjobs: Callable[..., Any], specs: pathlib.Path
) -> None:
    (specs / "specs" / "wrong.yaml").write_text("name: w\ncluster: small\nnodez: 2\n")
    done = clusterjobs("status", "specs", "--json")
    assert done.code == 0
    assert job_ids(done) == ["5", "6"]
    problems = json.loads(done.out)["problems"]
    assert {problem["file"] for problem in problems} == {"specs/wrong.yaml"}
    assert clusterjobs("status", "specs/wrong.yaml").code == 1


def test_a_job_of_several_specs_is_chosen_by_its_id(
    clusterjobs: Callable[..., Any], specs: pathlib.Path
) -> None:
    done = clusterjobs("status", "specs", "6")
    assert done.out.splitlines()[1].split()[0] == "6"
    assert "attempt  why it ended" in done.out
    assert "completed" not in done.out
    missing = clusterjobs("status", "specs", "6", "7")
    assert missing.code == 1
    assert missing.err == "no job 7 is known here\n   hint: the jobs: 5, 6\n"


def test_a_task_is_found_by_the_id_that_it_had_before_its_start(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, slurm: pathlib.Path
) -> None:
    write_squeue(slurm, row("6", "COMPLETED", "b", array="4", index="1"))
    assert job_ids(clusterjobs("status", "specs", "4_1", "--json")) == ["6"]


def test_settings_of_submit_find_jobs_in_another_folder_of_logs(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, slurm: pathlib.Path
) -> None:
    (specs / "logs").rename(specs / "elsewhere")
    setting = ["--set", f"logs={specs / 'elsewhere'}"]
    assert clusterjobs("status", "specs/a.yaml").code == 1
    assert job_ids(clusterjobs("status", "specs/a.yaml", *setting, "--json")) == ["5"]
    assert clusterjobs("logs", "specs/a.yaml").code == 1
    assert "Traceback" in clusterjobs("logs", "specs/a.yaml", *setting).out
    write_squeue(slurm, row("5", "RUNNING", name="a"))
    cancelled = clusterjobs("cancel", "specs/a.yaml", "7", *setting)
    assert "its jobs: 5" in cancelled.err


@pytest.mark.parametrize("words", [("status",), ("status", "5"), ("cancel", "5")])
def test_settings_without_a_spec_are_refused(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, words: tuple[str, ...]
) -> None:
    done = clusterjobs(*words, "--set", "logs=/elsewhere")
    assert done.code
    assert "--set changes a spec, and none is named" in done.err


def test_json_of_nothing_is_json(clusterjobs: Callable[..., Any], specs: pathlib.Path) -> None:
    nothing = {"slurm": True, "slurm_problem": "", "jobs": [], "sweeps": [], "problems": []}
    done = clusterjobs("status", "--json")
    assert (done.code, json.loads(done.out)) == (0, nothing)
    done = clusterjobs("status")
    said = "you have no job in the queue, and Slurm knows none that ended recently\n"
    assert (done.code, done.out) == (0, said)


def test_without_slurm_ones_own_jobs_are_not_known(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, slurm: pathlib.Path
) -> None:
    (slurm / "squeue").unlink()
    done = clusterjobs("status")
    assert done.code == 1
    assert "there is no Slurm here, so your jobs are not known" in done.err


def test_ones_own_jobs_are_found_with_their_specs(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, slurm: pathlib.Path
) -> None:
    workdir = str(specs / "specs")
    other = row("9", "PENDING", "other", reason="Priority", user=str(os.getuid() + 1))
    write_squeue(
        slurm,
        row("5", "COMPLETED", "a", workdir=workdir),
        row("7", "PENDING", "a", workdir=workdir, reason="JobHeldUser"),
        row("8", "FAILED", "by hand", workdir="/nowhere"),
        row("30", "PENDING", "array", array="30", index="4", reason="Priority", workdir="/tmp"),
        other,
    )
    done = clusterjobs("status", "--json")
    jobs = {job["job_id"]: job for job in json.loads(done.out)["jobs"]}
    assert {job_id: (job["status"], job["name"]) for job_id, job in jobs.items()} == {
        "5": ("completed", "a"),
        "7": ("pending", "a"),
        "8": ("failed", "by hand"),
        "30": ("pending", "array"),
    }
    assert jobs["5"]["step"] == 3
    assert jobs["7"]["spec"] == f"{workdir}/a.yaml"
    text = clusterjobs("status").out
    assert "\nby hand (no spec found)\n" in text
    assert text.endswith("4 jobs: 1 completed, 2 pending, 1 failed\n")


def test_ones_own_jobs_are_found_if_their_spec_has_its_name_from_another(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, slurm: pathlib.Path
) -> None:
    (specs / "sweep.yaml").write_text(
        "extends: specs/a.yaml\nsweep: {grid: {args.lr: [1e-3, 3e-4]}}\n"
    )
    (specs / "logs" / "a").mkdir(parents=True)
    record = {"token": "t40", "job_id": 40, "cluster": None, "user": "ann", "time": 1}
    points = {str(index): name for index, name in enumerate(point_names(specs / "sweep.yaml"))}
    more = {"spec": "sweep.yaml", "array": True, "points": points, "content": {}}
    (specs / "logs" / "a" / "submissions.jsonl").write_text(json.dumps(record | more) + "\n")
    tasks = (row("40", "PENDING", "a", array="40", index=n, workdir=str(specs)) for n in "01")
    write_squeue(slurm, *tasks)
    assert clusterjobs("status").out == "a: 2 points: 2 pending\n"


def point_names(spec: pathlib.Path) -> list[str]:
    from clusterjobs.runs.jobs.states import sweep_jobs

    found = sweep_jobs(spec)[1]
    assert found
    return list(found.points)


def test_tasks_of_an_array_that_wait_share_a_row(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, slurm: pathlib.Path
) -> None:
    tasks = [
        row("40", "PENDING", "a", array="40", index=str(n), reason="Priority", comment="")
        for n in NUMBERS
    ]
    write_squeue(slurm, row("39", "RUNNING", "a", array="38", index="2", comment=""), *tasks)
    done = clusterjobs("status", "specs/a.yaml")
    assert [line.split()[0] for line in done.out.splitlines()[1:3]] == ["5", "40_[0-2,7,9-10]"]
    assert len(json.loads(clusterjobs("status", "specs/a.yaml", "--json").out)["jobs"]) == 7


NUMBERS = (0, 1, 2, 7, 9, 10)


def test_the_folders_of_a_lab_are_named_as_its_jobs_name_them(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lab = specs / "clusterjobs" / "labs" / "mine"
    (lab / "shared").mkdir(parents=True)
    facts = {"cluster": "small", "slurm": "22.05", "nodes": [], "shared": ["/fsx"]}
    (lab / "lab.json").write_text(json.dumps(facts))
    (specs / "logs").rename(lab / "shared" / "fsx")
    monkeypatch.setenv("XDG_STATE_HOME", str(specs))
    monkeypatch.setenv("CLUSTERJOBS_LAB", "mine")
    assert job_ids(clusterjobs("status", "/fsx", "--json")) == ["5", "6"]
    assert job_ids(clusterjobs("status", "/fsx/6", "--json")) == ["6"]


def test_ones_own_sweep_is_one_line(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, slurm: pathlib.Path
) -> None:
    made = SweepOnDisk(specs, 3)
    made.submitted("40", range(3))
    tasks = (row("40", "PENDING", array="40", index=str(n), workdir=str(specs)) for n in range(3))
    write_squeue(slurm, *tasks)
    assert clusterjobs("status").out == "lr-width: 3 points: 3 pending\n"
    write_squeue(slurm, row("41", "PENDING", reason="Priority", workdir=str(specs)))
    assert clusterjobs("status").out.startswith("tiny (no spec found)\njob ")


def test_a_running_job_shows_the_newest_checkpoint_of_its_folder(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, slurm: pathlib.Path
) -> None:
    spec = specs / "specs" / "a.yaml"
    saved = specs / "saved"
    saved.mkdir()
    (saved / "latest").write_text("global_step30\n")
    spec.write_text(f"{spec.read_text()}checkpoints: {{path: {saved}, marker: latest}}\n")
    write_squeue(slurm, row("5", "RUNNING", "a"))
    (job,) = json.loads(clusterjobs("status", spec, "--json").out)["jobs"]
    assert (job["status"], job["checkpoint"], job["attempt"]) == ("running", "global_step30", 2)
    spec.write_text(spec.read_text().replace(", marker: latest", ""))
    os.utime(saved / "latest", (0, 0))
    told = clusterjobs("status", spec).out
    assert re.search(r" latest \(19(69|70)-\d\d-\d\d \d\d:\d\d:\d\d\) ", told)


def test_text_of_other_programs_cannot_change_the_terminal(
    clusterjobs: Callable[..., Any], specs: pathlib.Path, slurm: pathlib.Path
) -> None:
    (specs / "logs" / "6" / "job.log").write_text(
        "Traceback (most recent call last):\nE: \x1b]0;title\x07\x9b\u202e\n"
    )
    write_squeue(slurm, row("7", "PENDING", "a", reason="\x07new"))
    for target in ("specs", "."):
        text = clusterjobs("status", target).out
        assert "E: ?" in text
        assert all(character.isprintable() or character == "\n" for character in text)


def test_a_renamed_job_belongs_to_the_spec_whose_file_has_its_own_name(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, slurm: pathlib.Path
) -> None:
    """Two specs with the same file name share a folder of logs; one job got a name by --set."""
    for name in ("alpha", "beta"):
        (folder / name).mkdir()
        (folder / name / "exp.yaml").write_text(SPEC.format(name=name, logs=folder / "logs"))
    done = clusterjobs("render", "alpha/exp.yaml", "-o", "out", "--set", "name=trial")
    assert done.code == 0, done.err
    record = re.search(r"(?m)^\{\"name\": .*", (folder / "out" / "job.sh").read_text())
    assert record
    job = folder / "logs" / "7"
    job.mkdir(parents=True)
    (job / "plan.json").write_text(record[0])
    (job / "attempts.jsonl").write_text(COMPLETED)
    assert job_ids(clusterjobs("status", "alpha/exp.yaml", "--json")) == ["7"]
    assert "no job of exp.yaml" in clusterjobs("status", "beta/exp.yaml").err
