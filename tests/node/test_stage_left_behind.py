"""What an attempt has left beside the target never gets into the data of another."""

from __future__ import annotations

import json
import os
import pathlib
import zlib

import pytest
from node_programs import content, write_tree

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
