"""Data that a job brings before it trains, and what it copies away, in a real Slurm."""

from __future__ import annotations

import fcntl
import pathlib
import re
from collections.abc import Iterator
from typing import Any

import pytest
from faults import TIMEOUT, Running

from clusterjobs.lab.lab import until
from clusterjobs.runs.jobs.records import read_data

pytestmark = pytest.mark.lab


TRIED_AGAIN = {
    "checkpoints": {"path": "/fsx/saved"},
    "restarts": {"failure": 3},
    "time_limit": "00:30:00",
}


@pytest.fixture
def fsx(jobs, request) -> Iterator[pathlib.Path]:
    """The folder /fsx/TEST, as this machine sees it."""
    folder = jobs.lab.folder.shared("/fsx") / request.node.name
    folder.mkdir()
    return folder


def staged(jobs, name: str, *command: str, **keys: Any) -> dict[str, Any]:
    spec = jobs.spec(name, framework="command", command=["bash", "-c", *command], **keys)
    return {**spec, "ranks_per_node": 1}


def write_books(fsx: pathlib.Path) -> None:
    (fsx / "from" / "deep er").mkdir(parents=True)
    (fsx / "from" / "words").write_text("the words\n")
    (fsx / "from" / "deep er" / "it's").write_text("all of it\n")


def test_data_is_on_shared_storage_and_on_every_nodes_disk_before_a_rank_starts(jobs, fsx) -> None:
    write_books(fsx)
    here = f"/fsx/{fsx.name}"
    read = f'cat "{here}/data/deep er/it\'s" /scratch/{fsx.name}/words'
    data = [
        {"source": f"{here}/data", "target": f"/scratch/{fsx.name}", "scope": "node"},
        {"source": f"{here}/from", "target": f"{here}/data"},
    ]
    first = jobs.run(staged(jobs, "both", read, data=data))
    assert first.exit_code == 0, first.log
    assert first.log.count("all of it") == 2
    assert first.log.count("the words") == 2
    assert f"stage {here}/data: complete, 2 files" in first.log
    for node in (0, 1):
        line = f"{node}: clusterjobs: stage /scratch/{fsx.name}: complete, 2 files"
        assert line in first.log
    states = read_data((fsx.parent / "logs" / first.job_id / "data.jsonl").read_text())
    assert [one.said.startswith("complete, 2 files") for one in states] == [True] * 3
    assert sorted(one.node for one in states) == ["", "train-dy-small-1", "train-dy-small-2"]
    second = jobs.run(staged(jobs, "again", read, data=data))
    assert second.exit_code == 0, second.log
    assert second.log.count("up to date, 2 files") == 3
    assert "complete," not in second.log


def test_jobs_that_start_together_copy_once(jobs, fsx) -> None:
    write_books(fsx)
    data = [{"source": f"/fsx/{fsx.name}/from", "target": f"/fsx/{fsx.name}/to"}]
    ids = [
        jobs.submit(jobs.render(staged(jobs, name, "true", data=data, nodes=1)))
        for name in ("one", "other")
    ]
    ended = [jobs.end(job_id, "none") for job_id in ids]
    assert [one.exit_code for one in ended] == [0, 0], ended
    log = "".join(one.log for one in ended)
    assert log.count("complete, 2 files") == 1
    assert log.count("up to date, 2 files") == 1


def test_a_job_without_its_data_does_not_start_and_says_why(jobs, fsx) -> None:
    data = [
        {"source": f"/fsx/{fsx.name}/nothing", "target": f"/scratch/{fsx.name}", "scope": "node"}
    ]
    spec = staged(jobs, "without", f"touch /fsx/{fsx.name}/started", data=data, **TRIED_AGAIN)
    ended = jobs.run(spec)
    assert ended.exit_code == 1
    said = rf"the data source /fsx/{fsx.name}/nothing does not exist on node "
    assert re.search(said + r"train-dy-small-\d+: correct the spec's data\[0\].source", ended.log)
    assert "exit code 1 after" in ended.log
    assert ": not_started" in ended.log
    assert "requeued" not in ended.log
    assert not (fsx / "started").exists()


def test_a_job_without_its_script_ends_before_data_comes_and_is_not_tried_again(jobs, fsx) -> None:
    write_books(fsx)
    here = f"/fsx/{fsx.name}"
    data = [{"source": f"{here}/from", "target": f"{here}/to"}]
    spec = jobs.spec("trian", framework="torchrun", workdir=here, data=data, **TRIED_AGAIN)
    ended = jobs.run({**spec, "script": "trian.py"})
    assert ended.exit_code == 1
    assert f"clusterjobs: no script trian.py in {here}: correct the spec's script" in ended.log
    assert ": not_started" in ended.log
    assert "requeued" not in ended.log
    assert not (fsx / "to").exists()


def test_a_job_that_is_told_to_end_while_it_waits_for_data_ends_with_a_true_code(jobs, fsx) -> None:
    write_books(fsx)
    lock = held(fsx, "to")
    data = [{"source": f"/fsx/{fsx.name}/from", "target": f"/fsx/{fsx.name}/to"}]
    job_id = jobs.submit(jobs.render(staged(jobs, "ended", "true", data=data)))
    log = jobs.lab.folder.shared("/fsx") / "logs" / job_id / "job.log"
    until(lambda: log.exists() and "waiting for" in log.read_text(), 120, lambda: "no wait")
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, "ended")
    assert "ended with exit code 143" in ended.log
    assert not (fsx / "to").exists()
    lock.close()


def test_a_damaged_archive_uses_up_no_restart(jobs, fsx) -> None:
    (fsx / "a.tar.gz").write_text("<html>404 Not Found</html>\n")
    here = f"/fsx/{fsx.name}"
    data = [{"source": f"{here}/a.tar.gz", "target": f"{here}/to", "unpack": True}]
    ended = jobs.run(staged(jobs, "damaged", "true", data=data, nodes=1, **TRIED_AGAIN))
    assert ended.exit_code == 1
    assert "it starts with '<html>404 Not Found</html>': put the archive itself" in ended.log
    assert ": not_started" in ended.log
    assert "requeued" not in ended.log
    assert [one.name for one in fsx.iterdir()] == ["a.tar.gz"]


def test_checkpoints_and_logs_are_copied_away_and_the_exit_code_is_the_trainings(jobs, fsx) -> None:
    here = f"/fsx/{fsx.name}"
    save = f"mkdir -p {here}/saved/step-1; echo weights > {here}/saved/step-1/w; exit 7"
    keys = {
        "checkpoints": {"path": f"{here}/saved", "export": f"{here}/kept"},
        "logs": {"path": "/fsx/logs", "export": f"{here}/logs"},
    }
    ended = jobs.run(staged(jobs, "saving", save, nodes=1, **keys))
    assert ended.exit_code == 7, ended.log
    assert (fsx / "kept" / "step-1" / "w").read_text() == "weights\n"
    assert "export" in (fsx / "logs" / ended.job_id / "job.log").read_text()


def test_an_export_that_fails_says_so_and_hides_nothing(jobs, fsx) -> None:
    (fsx / "file").touch()
    here = f"/fsx/{fsx.name}"
    keys = {"checkpoints": {"path": f"{here}/saved", "export": f"{here}/file/below"}}
    ended = jobs.run(staged(jobs, "failing", f"echo 1 > {here}/saved/w", nodes=1, **keys))
    assert ended.exit_code == 0, ended.log
    assert f"export failed: {here}/file/below" in ended.log
    assert f"export {here}/saved: INCOMPLETE in {here}/file/below" in ended.log
    (state,) = read_data((fsx.parent / "logs" / ended.job_id / "data.jsonl").read_text())
    assert state.what == f"export {here}/saved to {here}/file/below"
    assert state.said.startswith(f"INCOMPLETE: {here}/file/below")
    assert state.is_incomplete


# ------------------------------------------------------------------ the time limit


def held(fsx: pathlib.Path, name: str) -> Any:
    """The lock of a target: its staging takes as long as this test likes."""
    (fsx / f".{name}.stage").mkdir()
    lock = (fsx / f".{name}.stage" / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)
    return lock


def limited(jobs, fsx: pathlib.Path, name: str, *targets: str) -> Running:
    """A job that stages the books to each of the targets, and may be started again often."""
    here = f"/fsx/{fsx.name}"
    train = f"cat {here}/{targets[-1]}/words; echo 1 > {here}/saved/step-1"
    spec = staged(
        *(jobs, name, train),
        nodes=1,
        data=[{"source": f"{here}/from", "target": f"{here}/{one}"} for one in targets],
        checkpoints={"path": f"{here}/saved", "export": f"{here}/kept"},
        restarts={"time_limit": 9, "grace_seconds": 5},
        time_limit="00:30:00",
    )
    return Running(jobs.lab, jobs.submit(jobs.render(spec)), fsx)


def say_the_limit_is_near(job: Running, attempt: int) -> None:
    """What Slurm does for --signal=B:USR1@..., once this attempt waits for data."""

    def waits() -> bool:
        parts = re.split(r"clusterjobs: attempt \d+,", job.log())
        return len(parts) == attempt and "waiting for" in parts[-1]

    until(waits, TIMEOUT, job.log)
    job.scancel("--batch", "--signal=USR1")


def test_a_time_limit_while_staging_costs_nothing_and_the_training_runs_in_the_end(
    jobs, fsx, fault_table
) -> None:
    write_books(fsx)
    (fsx / "saved").mkdir()
    (fsx / "saved" / "step-0").touch()
    targets = ["one", "two", "three"]
    locks = [held(fsx, name) for name in targets]
    job = limited(jobs, fsx, "limited", *targets)
    for attempt, lock in enumerate(locks, 1):
        say_the_limit_is_near(job, attempt)
        until(lambda n=attempt: len(job.records()) == n, TIMEOUT, job.log)
        lock.close()  # the next attempt gets one further
    assert job.wait() == 0, job.log()
    assert [one["reason"] for one in job.records()] == ["time_limit"] * 3 + ["completed"]
    assert [one.get("data_staged", False) for one in job.records()] == [False] + [True] * 3
    assert all(job.log().count(f"/{name}: complete") == 1 for name in targets), job.log()
    assert "the words" in job.log()
    assert (fsx / "kept" / "step-1").exists(), job.log()
    fault_table.append(
        "time limit while staging, three times: time_limit x 3, completed; exit code 0; "
        "copied twice: nothing"
    )


def test_a_job_whose_staging_gets_nowhere_stops_and_says_why(jobs, fsx, fault_table) -> None:
    write_books(fsx)
    lock = held(fsx, "stuck")
    job = limited(jobs, fsx, "stuck", "stuck")
    for attempt in (1, 2, 3):
        say_the_limit_is_near(job, attempt)
        until(lambda n=attempt: len(job.records()) == n, TIMEOUT, job.log)
    assert job.wait() == 124, job.log()
    lock.close()
    assert "no restart: the last two brought no newer checkpoint than none" in job.log()
    fault_table.append(
        "time limit while staging, and no data comes: time_limit x 3; exit code 124; stopped"
    )
