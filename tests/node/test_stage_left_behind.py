"""What an attempt leaves beside the target, and that it never gets into the data of another."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import zlib

import pytest
from node_programs import STAGE_FOLDER, content, write_tree

TIME = 10**18  # of files that a reproducible archive has made: all the same


def left(target: pathlib.Path, source: pathlib.Path | None) -> pathlib.Path:
    """The hidden folder of an attempt that was killed, and its copy; `source` is whose it was."""
    folder = target.with_name(f".{target.name}.stage")
    (folder / "copy").mkdir(parents=True)
    if source is not None:
        (folder / "source").write_text(json.dumps([str(source), False]))
    return folder


def file_of(path: pathlib.Path, data: bytes) -> pathlib.Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    os.utime(path, ns=(TIME, TIME))
    return path


def test_a_copy_of_what_the_source_was_for_a_while_is_not_taken(tmp_path, staged) -> None:
    source, target = write_tree(tmp_path / "source", 8, 70 << 20), tmp_path / "to"
    assert staged(source, target).returncode == 0
    folder = left(target, source)
    for name in ("large", "part 1/0001"):
        wrong = os.urandom((source / name).stat().st_size)
        (folder / "copy" / name).parent.mkdir(exist_ok=True)
        (folder / "copy" / name).write_bytes(wrong)
    (source / "new").write_bytes(b"new")
    done = staged(source, target)
    assert done.returncode == 0, done.stdout
    assert content(target) == content(source)


def test_a_copy_is_not_taken_where_the_target_has_it_without_a_record(tmp_path, staged) -> None:
    source, target = write_tree(tmp_path / "source", 8, 70 << 20), tmp_path / "to"
    assert staged(source, target).returncode == 0
    folder = left(target, source)
    (folder / "record.json").unlink()
    (folder / "copy" / "large").write_bytes(os.urandom(70 << 20))
    done = staged(source, target)
    assert done.returncode == 0, done.stdout
    assert content(target) == content(source)


@pytest.mark.parametrize("is_known", [True, False])
def test_another_sources_journal_vouches_for_nothing(tmp_path, staged, is_known: bool) -> None:
    ours = file_of(tmp_path / "ours" / "x", b"AAAA").parent
    theirs = file_of(tmp_path / "theirs" / "x", b"BBBB").parent
    folder = left(tmp_path / "to", theirs if is_known else None)
    file_of(folder / "copy" / "x", b"BBBB")
    journal = [["x", 0, 4, TIME, (ours / "x").stat().st_ctime_ns, zlib.crc32(b"BBBB")]]
    (folder / "journal").write_text("\n" + json.dumps(journal))
    done = staged(ours, tmp_path / "to")
    assert done.returncode == 0, done.stdout
    assert (tmp_path / "to" / "x").read_bytes() == b"AAAA"


def test_links_and_folders_of_an_earlier_source_do_not_stay(tmp_path, staged) -> None:
    source, target = tmp_path / "source", tmp_path / "to"
    for name in ("d/x", "e/x", "f", "large"):
        size = 40 << 20 if name == "large" else 4
        file_of(source / name, os.urandom(size))
    folder = left(target, source)
    (folder / "copy" / "e").mkdir()
    (folder / "copy" / "d").symlink_to("e")
    (folder / "copy" / "large").symlink_to("e")
    (folder / "copy" / "f").mkdir()
    file_of(folder / "copy" / "f" / "x", b"x")
    done = staged(source, target)
    assert done.returncode == 0, done.stdout
    assert content(target) == content(source)
    assert "up to date" in staged(source, target).stdout


# ------------------------------------------------------------------ what stays


def beside(target: pathlib.Path) -> list[str]:
    return sorted(os.listdir(target.with_name(f".{target.name}.stage")))


def test_a_finished_staging_leaves_its_record_alone(tmp_path, staged) -> None:
    source, target = write_tree(tmp_path / "source", 3), tmp_path / "to"
    assert staged(source, target).returncode == 0
    assert beside(target) == ["record.json"]
    (source / "new").write_text("new")
    assert staged(source, target).returncode == 0
    assert beside(target) == ["record.json"]


def test_a_failed_staging_leaves_nothing_that_nobody_needs(tmp_path, staged) -> None:
    (tmp_path / "a.tar").write_text("no archive")
    for words in ([tmp_path / "missing"], ["--unpack", tmp_path / "a.tar"]):
        assert staged(*words, tmp_path / "to").returncode == 1
        assert not (tmp_path / ".to.stage").exists()
    source, target = write_tree(tmp_path / "source", 3), tmp_path / "other"
    target.mkdir()
    (target / "large").write_text("mine")
    assert staged(source, target).returncode == 1
    assert sorted(os.listdir(tmp_path)) == ["a.tar", "other", "source"]


def test_a_failed_staging_leaves_what_a_retry_uses(tmp_path, staged) -> None:
    source, target = write_tree(tmp_path / "source", 3), tmp_path / "to"
    (target / "part 1").mkdir(parents=True)
    (target / "part 1" / "0001").mkdir()
    done = staged(source, target)
    assert "is a folder, but a file in the source" in done.stdout
    assert "copy" in beside(target)
    assert "lock" not in beside(target)
    (target / "part 1" / "0001").rmdir()
    assert staged(source, target).returncode == 0
    assert beside(target) == ["record.json"]


def test_a_lock_whose_file_was_removed_counts_for_nothing(tmp_path, modules) -> None:
    """Its last holder has removed it, and perhaps the folder."""
    import stage_lock

    first, second = (stage_lock.Lock(str(tmp_path / "lock"), "stage") for _ in range(2))
    first.acquire()
    second._file = stage_lock._open_lock(str(tmp_path / "lock"))  # it waits
    assert not second._try()
    first.release()
    assert os.listdir(tmp_path) == []
    assert not second._try()
    assert os.listdir(tmp_path) == ["lock"]
    third = stage_lock.Lock(str(tmp_path / "lock"), "stage")
    third._file = stage_lock._open_lock(str(tmp_path / "lock"))
    assert second._try()
    assert not third._try()
    second.release()
    tmp_path.joinpath("lock").unlink(missing_ok=True)
    tmp_path.rmdir()
    with pytest.raises(FileNotFoundError):
        third._try()


def test_many_stagings_one_after_the_other_hold_the_lock_alone(tmp_path) -> None:
    """Each removes the lock's file while the others wait for it."""

    (tmp_path / "count").write_text("0")
    words = [sys.executable, "-Bc", _COUNT, str(STAGE_FOLDER), str(tmp_path)]
    jobs = [subprocess.Popen(words) for _ in range(6)]
    assert [job.wait(120) for job in jobs] == [0] * 6
    assert (tmp_path / "count").read_text() == "120"


_COUNT = """
import os, sys
sys.path.insert(0, sys.argv[1])
import stage_lock, stage_log, stage_record
stage_lock.report_status = lambda *_: None
stage_lock._POLL_SECONDS = 0.001
paths = stage_record.StagePaths(sys.argv[2] + "/to")
count = sys.argv[2] + "/count"
for _ in range(20):
    while True:
        paths.make_folder()
        lock = stage_lock.Lock(paths.lock, "count")
        try:
            lock.acquire()
            break
        except FileNotFoundError:
            continue
    number = int(open(count).read())
    with open(count, "w") as file:
        file.write(str(number + 1))
    lock.release()
    paths.remove_empty_folder()
"""
