"""Data that a job brings before it trains, and what it copies away, in a real Slurm."""

from __future__ import annotations

import fcntl
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest

from clusterjobs.lab.polling import until

pytestmark = pytest.mark.lab


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
    second = jobs.run(staged(jobs, "again", read, data=data))
    assert second.exit_code == 0, second.log
    assert second.log.count("is there, 2 files") == 3
    assert "complete" not in second.log


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
    assert log.count("is there, 2 files") == 1


def test_a_job_without_its_data_does_not_start_and_says_why(jobs, fsx) -> None:
    data = [
        {"source": f"/fsx/{fsx.name}/nothing", "target": f"/scratch/{fsx.name}", "scope": "node"}
    ]
    ended = jobs.run(staged(jobs, "without", f"touch /fsx/{fsx.name}/started", data=data))
    assert ended.exit_code == 1
    assert f"stage failed: /fsx/{fsx.name}/nothing: No such file or directory" in ended.log
    assert not (fsx / "started").exists()


def test_a_job_that_is_told_to_end_while_it_waits_for_data_ends_with_a_true_code(jobs, fsx) -> None:
    write_books(fsx)
    (fsx / ".to.stage").mkdir()
    lock = (fsx / ".to.stage" / "lock").open("w")
    fcntl.flock(lock, fcntl.LOCK_EX)  # so that the staging takes as long as this test likes
    data = [{"source": f"/fsx/{fsx.name}/from", "target": f"/fsx/{fsx.name}/to"}]
    job_id = jobs.submit(jobs.render(staged(jobs, "ended", "true", data=data)))
    log = jobs.lab.folder.shared("/fsx") / "logs" / job_id / "job.log"
    until(lambda: log.exists() and "waiting for" in log.read_text(), 60, lambda: "no wait")
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, "ended")
    assert "ended with exit code 143" in ended.log
    assert not (fsx / "to").exists()
    lock.close()


def test_checkpoints_and_logs_are_copied_away_and_the_exit_code_is_the_trainings(jobs, fsx) -> None:
    here = f"/fsx/{fsx.name}"
    save = f"mkdir -p {here}/saved/step-1; echo weights > {here}/saved/step-1/w; exit 7"
    keys = {
        "checkpoints": {"path": f"{here}/saved", "export": f"{here}/kept"},
        "logs_export": f"{here}/logs",
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
    assert f"export {here}/saved: NOT all of it is in {here}/file/below" in ended.log
