"""What staging tells its job: that data has come which the next attempt need not bring."""

from __future__ import annotations

import fcntl
import os
import pathlib
import signal
import subprocess
import sys
import tarfile

import pytest
from node_programs import STAGE_FOLDER, STAND_INS, command, content, write_tree

from clusterjobs.lab.lab import until
from clusterjobs.runs.jobs.records import read_data

_KILLED_AT_THE_END = """
import os, signal, sys
sys.path.insert(0, sys.argv.pop(1))
import stage
stage.TargetFiles.commit = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
stage.main()
"""


@pytest.fixture
def mark(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """The file that says that something has come, in the folder of the job."""
    path = tmp_path / "data_staged"
    monkeypatch.setenv("STAGE_DIR", str(tmp_path))
    return path


def came(mark: pathlib.Path) -> bool:
    """Whether something came since this was last asked."""
    was_there = mark.exists()
    mark.unlink(missing_ok=True)
    return was_there


def test_what_comes_is_marked_and_what_is_there_is_not(tmp_path, staged, mark) -> None:
    source = write_tree(tmp_path / "source", 5)
    assert staged(source, tmp_path / "to").returncode == 0
    assert came(mark)
    assert "up to date" in staged(source, tmp_path / "to").stdout
    assert not came(mark)
    assert staged(tmp_path / "nothing", tmp_path / "other").returncode == 1
    assert not came(mark)


def test_an_attempt_that_only_reads_what_an_earlier_one_copied_has_brought_nothing(
    tmp_path, mark
) -> None:
    source = write_tree(tmp_path / "source", 5, 40 << 20)
    words = [sys.executable, "-Bc", _KILLED_AT_THE_END, STAGE_FOLDER, source, tmp_path / "to"]
    for is_new in (True, False):
        assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
        assert came(mark) == is_new
    (source / "another").touch()
    assert subprocess.run(words, check=False).returncode == -signal.SIGKILL
    assert came(mark)


def test_who_waits_hears_that_data_comes_for_another(tmp_path, mark) -> None:
    source, folder = write_tree(tmp_path / "source", 2), tmp_path / ".to.stage"
    folder.mkdir()
    with (folder / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = subprocess.Popen(
            command("stage.py", source, tmp_path / "to"), stdout=subprocess.PIPE, text=True
        )
        assert process.stdout
        assert "waiting for" in process.stdout.readline()
        assert not came(mark)
        (folder / "lock.progress").touch()
        until(mark.exists, 120, lambda: "never heard")
    process.communicate(timeout=120)
    assert process.returncode == 0


def test_a_line_of_the_journal_that_was_cut_off_costs_that_line(tmp_path, modules) -> None:
    from stage_record import StagePaths

    paths = StagePaths(str(tmp_path / "to"))
    os.mkdir(paths.folder)
    paths.append_journal([["a", 0, 1, 2, 5, 3]])
    journal = pathlib.Path(paths.folder) / "journal"
    with journal.open("a") as file:
        file.write('\n[["b", 0, 1')
    paths.append_journal([["c", 0, 1, 2, 5, 4]])
    assert paths.load_journal() == {("a", 0, 1, 2, 5): 3, ("c", 0, 1, 2, 5): 4}


# ------------------------------------------------------------------ from a bucket


def test_an_object_on_its_way_counts_by_its_bytes(tmp_path, modules) -> None:
    """As aws keeps it beside its place; a large one that seems to stand still would be given up."""
    from stage_download import Download

    def scan(wanted: dict[str, list[object]], to: str) -> tuple[int, list[str]]:
        download = Download.__new__(Download)
        download._wanted, download._to = wanted, to
        download._partial = str(tmp_path / "partial")
        return download._scan()

    one = str(tmp_path / "archive")
    pathlib.Path(one + ".1a2B3c4D").write_bytes(b"1234")
    (tmp_path / "journal").write_bytes(b"not of it")
    assert scan({"": [10, ""]}, one) == (4, [])
    pathlib.Path(one + ".1a2B3c4D").unlink()
    pathlib.Path(one).write_bytes(b"1234567890")
    assert scan({"": [10, ""]}, one) == (10, [""])
    folder = tmp_path / "copy" / "deep"
    folder.mkdir(parents=True)
    (folder / "whole").write_bytes(b"12")
    (folder / "part").write_bytes(b"1")
    wanted = {"deep/whole": [2, ""], "deep/part": [2, ""], "deep/none": [0, ""]}
    assert scan(wanted, str(tmp_path / "copy")) == (3, ["deep/whole"])


def test_an_archive_that_had_come_is_not_fetched_again(tmp_path, staged, mark) -> None:
    tool, bucket = tmp_path / "bin" / "aws", tmp_path / "buckets" / "corpus"
    tool.parent.mkdir()
    bucket.mkdir(parents=True)
    tool.write_text(f"#!{sys.executable}\n" + (STAND_INS / "bucket_tool.py").read_text())
    tool.chmod(0o755)
    source = write_tree(tmp_path / "source", 5, 1000)
    with tarfile.open(bucket / "books.tar", "w") as archive:
        archive.add(source, ".")
    (tmp_path / ".to.stage").mkdir()
    (tmp_path / ".to.stage" / "source").write_text('["s3://corpus/books.tar", true]')
    (tmp_path / ".to.stage" / "archive").write_bytes((bucket / "books.tar").read_bytes())
    environment = {"PATH": f"{tool.parent}:/usr/bin:/bin", "BUCKETS": str(bucket.parent)}
    done = staged("--unpack", "s3://corpus/books.tar", tmp_path / "to", **environment)
    assert done.returncode == 0, done.stdout
    assert set(content(tmp_path / "to")) == set(content(source))
    assert '"cp"' not in (bucket.parent / ".calls").read_text()
    assert came(mark)  # unpacked, and complete


def test_how_the_data_stands_is_in_the_jobs_folder(tmp_path, staged, mark) -> None:
    source, target = write_tree(tmp_path / "source", 5), tmp_path / "to"
    assert staged(source, target).returncode == 0
    (state,) = read_data((tmp_path / "data.jsonl").read_text())
    assert (state.node, state.what) == ("", f"stage {target}")
    assert state.said.startswith("complete, 6 files, ")
    failed = staged(tmp_path / "nowhere", tmp_path / "other")
    state = read_data((tmp_path / "data.jsonl").read_text())[-1]
    assert f"clusterjobs: {state.what}: {state.said}\n" in failed.stdout
    assert "nowhere" in state.said
