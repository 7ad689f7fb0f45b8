"""cancel: by ids, by a spec, by the points of a sweep; with stand-ins for squeue and scancel."""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
from stand_in_squeue import row, write_squeue
from sweep_on_disk import SweepOnDisk

START = "2026-11-22T15:04:05"
SPEC = "name: tiny\ncluster: small\nframework: command\ncommand: [./train]\nlogs: {logs}\n"
SWEEP = SPEC + "sweep: {{grid: {{args.lr: [1e-3, 3e-4], args.micro: [4, 8]}}}}\n"


@pytest.fixture
def slurm(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., pathlib.Path]:
    """`slurm(*jobs, refused="12: denied")`: the jobs that squeue knows; the file with the words
    that scancel got. It refuses one of the jobs."""
    programs = folder.parent / "bin"
    programs.mkdir()
    monkeypatch.setenv("PATH", str(programs))

    def write(*jobs: dict[str, str], refused: str = "") -> pathlib.Path:
        write_squeue(programs, *jobs)
        said = f"echo 'scancel: error: Kill job error on job id {refused}' >&2; exit 1"
        program = programs / "scancel"
        body = f'printf "%s\\n" "$@" > {programs}/cancelled\n{said if refused else ""}\n'
        program.write_text(f"#!/bin/bash\n{body}")
        program.chmod(0o755)
        return programs / "cancelled"

    return write


@pytest.fixture
def spec(folder: pathlib.Path) -> str:
    (folder / "exp.yaml").write_text(SPEC.format(logs=folder / "logs"))
    return "exp.yaml"


@pytest.fixture
def sweep(folder: pathlib.Path) -> list[str]:
    """The names of the points of sweep.yaml."""
    from clusterjobs.runs.jobs.states import sweep_jobs

    (folder / "sweep.yaml").write_text(SWEEP.format(logs=folder / "logs"))
    found = sweep_jobs(pathlib.Path("sweep.yaml"))[1]
    assert found
    return list(found.points)


def submitted(folder: pathlib.Path, job_id: int, points: dict[str, str]) -> None:
    record = {"token": f"t{job_id}", "job_id": job_id, "cluster": None, "user": "ann", "time": 1}
    (folder / "logs" / "tiny").mkdir(parents=True, exist_ok=True)
    with (folder / "logs" / "tiny" / "submissions.jsonl").open("a") as file:
        more = {"spec": "sweep.yaml", "array": True, "points": points, "content": {}}
        file.write(json.dumps({**record, **more}) + "\n")


def ended(folder: pathlib.Path, point: str, job_id: int, reason: str) -> None:
    job = folder / "logs" / "tiny" / point / str(job_id)
    job.mkdir(parents=True)
    (job / "attempts.jsonl").write_text(
        json.dumps({"attempt": 1, "reason": reason, "exit_code": 0, "ended": 5}) + "\n"
    )


def task(index: int, state: str, **more: str) -> dict[str, str]:
    """A task of the array 70; those that wait share its id."""
    own = "70" if state == "PENDING" else str(70 + index)
    return row(own, state, array="70", index=str(index), **more)


ARRAY = (row("21", "RUNNING", array="20", index="3"), row("20", "PENDING", array="20", index="4"))


def test_ids_are_cancelled_and_unknown_ones_named(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path]
) -> None:
    words = slurm(row("12", "PENDING"), row("14", "RUNNING", start=START), row("15", "FAILED"))
    done = clusterjobs("cancel", "12", "99", "14", "12", "all", "98", "15", "12_1", "20_[3-4]")
    assert done.code == 1
    assert done.out.splitlines() == [
        "job 12 is cancelled; it was pending",
        f"job 14 is cancelled; it was running since {START}",
        "job 15 had already ended: FAILED",
    ]
    assert [line for line in done.err.splitlines() if "hint" not in line] == [
        "'all' is neither a job id nor a file",
        "'20_[3-4]' is neither a job id nor a file",
        "no job 99 is in the queue",
        "no job 98 is in the queue",
        "no job 12_1 is in the queue",
        "5 problems",
    ]
    assert words.read_text() == "--\n12\n14\n"


def test_without_a_job_in_the_queue_scancel_is_not_called(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path]
) -> None:
    words = slurm(row("15", "COMPLETED"))
    assert clusterjobs("cancel", "99").code == 1
    assert clusterjobs("cancel", "15").code == 0
    assert not words.exists()


@pytest.mark.parametrize("state", ["REQUEUED", "REQUEUE_HOLD", "RESV_DEL_HOLD", "SPECIAL_EXIT"])
def test_a_job_that_waits_again_was_pending(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path], state: str
) -> None:
    slurm(row("12", state))
    assert clusterjobs("cancel", "12").out == "job 12 is cancelled; it was pending\n"


def test_an_arrays_id_means_all_its_tasks(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path]
) -> None:
    words = slurm(*ARRAY)
    assert clusterjobs("cancel", "20_4", "21").out == (
        "job 20_4 is cancelled; it was pending\njob 20_3 is cancelled; it was running\n"
    )
    assert words.read_text() == "--\n20_[3-4]\n"
    said = clusterjobs("cancel", "20").out
    assert said == "job 20 is cancelled, with all tasks of its array (1 pending, 1 running)\n"


def test_what_scancel_refuses_is_reported_and_the_others_are_cancelled(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path]
) -> None:
    slurm(row("12", "RUNNING"), row("14", "PENDING"), refused="12: Access/permission denied")
    done = clusterjobs("cancel", "12", "14")
    assert done.code == 1
    assert done.out == "job 14 is cancelled; it was pending\n"
    assert done.err == "job 12 is not cancelled: Access/permission denied\n"


def test_a_spec_means_its_jobs_of_this_user(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path], spec: str
) -> None:
    other = {"user": str(os.getuid() + 1)}
    words = slurm(
        row("12", "PENDING"), row("13", "PENDING", **other), row("14", "PENDING", "other")
    )
    done = clusterjobs("cancel", spec)
    assert (done.code, done.err) == (0, "")
    assert done.out == "job 12 is cancelled; it was pending\n"
    assert words.read_text() == "--\n12\n"
    both = clusterjobs("cancel", "14", spec)
    assert [line.split(";")[0] for line in both.out.splitlines()] == [
        "job 14 is cancelled",
        "job 12 is cancelled",
    ]


def test_ids_after_a_spec_mean_only_these(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path], spec: str
) -> None:
    words = slurm(row("12", "PENDING"), row("13", "PENDING"), row("14", "PENDING", "other"))
    assert clusterjobs("cancel", spec, "12").out == "job 12 is cancelled; it was pending\n"
    assert words.read_text() == "--\n12\n"
    refused = clusterjobs("cancel", spec, "14")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == f"no job 14 of {spec}\n   hint: its jobs: 12, 13\n"


def test_a_spec_without_a_job_in_the_queue_is_no_failure(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path], spec: str
) -> None:
    slurm()
    done = clusterjobs("cancel", spec)
    assert (done.code, done.out) == (0, "")
    assert done.err == "you have no pending or running job of exp.yaml\n"


def test_a_wrong_spec_does_not_keep_the_others_from_being_cancelled(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path], spec: str
) -> None:
    slurm(row("12", "PENDING"))
    done = clusterjobs("cancel", "nosuch.yaml", spec)
    assert done.code == 1
    assert done.out == "job 12 is cancelled; it was pending\n"
    assert "nosuch.yaml" in done.err


def test_a_sweep_means_its_points_that_are_pending_or_running(
    clusterjobs: Callable[..., Any],
    slurm: Callable[..., pathlib.Path],
    sweep: list[str],
    folder: pathlib.Path,
) -> None:
    submitted(folder, 70, {str(index): name for index, name in enumerate(sweep)})
    ended(folder, sweep[1], 71, "completed")
    # The first task has the array's own id: by it, scancel would end all of them.
    running = row("70", "RUNNING", array="70", index="0", start=START)
    words = slurm(running, row("72", "PENDING", array="70", index="2"))
    done = clusterjobs("cancel", "sweep.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines() == [
        f"{sweep[0]}: job 70_0 is cancelled; it was running since {START}",
        f"{sweep[2]}: job 70_2 is cancelled; it was pending",
    ]
    assert words.read_text() == "--\n70_[0,2]\n"


def test_a_thousand_tasks_are_one_word_for_scancel(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path], folder: pathlib.Path
) -> None:
    made = SweepOnDisk(folder, 1000)
    made.submitted("70", range(1000))
    words = slurm(*(task(index, "PENDING") for index in range(1000) if index != 7))
    done = clusterjobs("cancel", made.spec)
    assert (done.code, done.err) == (0, "")
    assert len(done.out.splitlines()) == 999
    assert words.read_text() == "--\n70_[0-6,8-999]\n"


def test_a_task_that_scancel_refuses_does_not_hide_the_others(
    clusterjobs: Callable[..., Any],
    slurm: Callable[..., pathlib.Path],
    sweep: list[str],
    folder: pathlib.Path,
) -> None:
    submitted(folder, 70, {str(index): name for index, name in enumerate(sweep)})
    words = slurm(*(task(index, "PENDING") for index in range(3)))
    program = words.with_name("scancel")
    program.write_text(
        "#!/bin/bash\nwhy='Invalid job id specified'\n"
        "for one; do case $one in 70_1 | 70_*,* | 70_*-*)\n"
        'echo "scancel: error: Kill job error on job id $one: $why" >&2 ;; esac; done\nexit 1\n'
    )
    done = clusterjobs("cancel", "sweep.yaml")
    assert done.code == 1
    assert done.err == "job 70_1 is not cancelled: Invalid job id specified\n"
    assert done.out.splitlines() == [
        f"{sweep[0]}: job 70_0 is cancelled; it was pending",
        f"{sweep[2]}: job 70_2 is cancelled; it was pending",
    ]


def test_points_are_chosen_by_patterns_and_ids(
    clusterjobs: Callable[..., Any],
    slurm: Callable[..., pathlib.Path],
    sweep: list[str],
    folder: pathlib.Path,
) -> None:
    submitted(folder, 70, {str(index): name for index, name in enumerate(sweep[:3])})
    ended(folder, sweep[1], 71, "failure")
    words = slurm(task(0, "RUNNING"), task(2, "PENDING"))
    done = clusterjobs("cancel", "sweep.yaml", "*micro=4-*", "70_2", "7", "1")
    assert done.code == 1
    assert words.read_text() == "--\n70_[0,2]\n"
    assert (
        "no job 7 is in the queue\n   hint: it is no point either: the points are 0 to 3"
        in done.err
    )
    done = clusterjobs("cancel", "sweep.yaml", "*lr=1e-3*", "70_2", "3")
    assert done.code == 0
    assert done.out.splitlines() == [
        "job 70_2 is cancelled; it was pending",
        f"{sweep[0]}: job 70_0 is cancelled; it was running",
        f"{sweep[1]} had already ended: failed",
        f"{sweep[3]} was never submitted",
    ]
    assert words.read_text() == "--\n70_[0,2]\n"


def test_a_wrong_index_is_not_taken_for_another_job(
    clusterjobs: Callable[..., Any],
    slurm: Callable[..., pathlib.Path],
    sweep: list[str],
    folder: pathlib.Path,
) -> None:
    submitted(folder, 70, {str(index): name for index, name in enumerate(sweep)})
    words = slurm(task(0, "RUNNING"), row("4", "RUNNING", "other"))
    done = clusterjobs("cancel", "sweep.yaml", "4")
    assert (done.code, done.out, words.exists()) == (1, "", False)
    assert done.err == (
        "4 is no point and no job of sweep.yaml\n   hint: to cancel job 4: clusterjobs cancel 4\n"
    )
    assert clusterjobs("cancel", "sweep.yaml", "70").code == 0
    assert words.read_text() == "--\n70\n"


def test_strange_names_in_the_record_end_nothing(
    clusterjobs: Callable[..., Any],
    slurm: Callable[..., pathlib.Path],
    sweep: list[str],
    folder: pathlib.Path,
) -> None:
    strange = {"1": "9" * 5000 + "-x", "2": "0001-\x1b]0;hit\x07-deadbeef", "3": "²-x"}
    submitted(folder, 70, {"0": sweep[0], **strange})
    slurm(task(0, "RUNNING"), task(2, "PENDING"))
    for words in (
        ["cancel", "sweep.yaml"],
        ["cancel", "sweep.yaml", "nothing"],
        ["logs", "sweep.yaml"],
        ["logs", "sweep.yaml", "0"],
        ["logs", "sweep.yaml", "-"],
        ["status", "sweep.yaml"],
        ["status", "logs/tiny", "--points"],
        ["results", "logs/tiny"],
    ):
        done = clusterjobs(*words)
        assert done.code in (0, 1), (words, done.err)
        assert all(one.isprintable() or one == "\n" for one in done.out + done.err), words


def test_a_point_that_shares_its_node_is_cancelled_only_with_the_others(
    clusterjobs: Callable[..., Any],
    slurm: Callable[..., pathlib.Path],
    sweep: list[str],
    folder: pathlib.Path,
) -> None:
    packed = {f"0.{slot}": name for slot, name in enumerate(sweep[:2])}
    submitted(folder, 70, {**packed, "1.0": sweep[2], "1.1": sweep[3]})
    words = slurm(task(0, "RUNNING"), task(1, "PENDING"))
    refused = clusterjobs("cancel", "sweep.yaml", "0")
    assert (refused.code, refused.out) == (1, "")
    assert refused.err == (
        f"job 70_0 runs {sweep[0]}, and on the same node also {sweep[1]}\n"
        "   hint: a job is cancelled as a whole: name all of its points\n"
    )
    assert not words.exists()
    done = clusterjobs("cancel", "sweep.yaml", "0-1")
    assert done.out == f"{sweep[0]}, {sweep[1]}: job 70_0 is cancelled; it was running\n"


def test_cancel_as_json(
    clusterjobs: Callable[..., Any], slurm: Callable[..., pathlib.Path], spec: str
) -> None:
    slurm(row("12", "RUNNING", start=START), row("13", "CANCELLED"))
    done = clusterjobs("cancel", "--json", "12", "13", "99")
    assert done.code == 1
    data = json.loads(done.out)
    assert data["jobs"][0] == {
        "job_id": "12",
        "points": [],
        "cancelled": True,
        "pending": 0,
        "running": 1,
        "since": START,
        "state": "RUNNING",
    }
    assert [(one["job_id"], one["cancelled"], one["state"]) for one in data["jobs"][1:]] == [
        ("13", False, "CANCELLED"),
        ("99", False, ""),
    ]
    assert [one["what"] for one in data["problems"]] == ["no job 99 is in the queue"]


def test_without_slurm_nothing_can_be_cancelled(
    clusterjobs: Callable[..., Any], folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))
    done = clusterjobs("cancel", "12")
    assert done.code == 1
    assert done.err.startswith("there is no scancel here\n")
