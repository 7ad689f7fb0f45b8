"""stage.py from a folder: every kind of file, found again or copied again, and never half."""

from __future__ import annotations

import json
import os
import pathlib
import socket

import pytest
from node_programs import content, write_tree


def record_of(target: pathlib.Path) -> pathlib.Path:
    return target.with_name(f".{target.name}.stage") / "record.json"


def test_every_name_and_kind_arrives_as_it_was(tmp_path, staged) -> None:
    source = tmp_path / "a source"
    for name in (b"plain", b"with space", b"new\nline", b"\xff\xfe", b"-rf", b"it's $HOME `id`"):
        path = os.path.join(os.fsencode(source), name)
        os.makedirs(path)
        with open(os.path.join(path, name), "wb") as file:
            file.write(name)
    (source / "empty").touch()
    (source / "no files").mkdir()
    (source / "run").write_text("#!/bin/sh\n")
    (source / "run").chmod(0o751)
    (source / "read only").mkdir()
    (source / "read only" / "x").write_text("x")
    (source / "read only" / "x").chmod(0o444)
    (source / "read only").chmod(0o555)
    (source / "link").symlink_to("plain/plain")
    (source / "plain" / "up").symlink_to("../empty")
    os.utime(source / "run", ns=(1, 1_234_567_890_123_456_789))
    done = staged(source, tmp_path / "deep" / "target")
    assert done.returncode == 0, done.stdout
    assert content(tmp_path / "deep" / "target") == content(source)
    assert "complete, 9 files" in done.stdout


def test_a_single_file_and_an_empty_folder_are_data_sets(tmp_path, staged) -> None:
    (tmp_path / "one").write_text("1")
    (tmp_path / "none").mkdir()
    for name in ("one", "none"):
        assert staged(tmp_path / name, tmp_path / "to" / name).returncode == 0
        assert "up to date" in staged(tmp_path / name, tmp_path / "to" / name).stdout
    assert (tmp_path / "to" / "one").read_text() == "1"
    assert list((tmp_path / "to" / "none").iterdir()) == []


def test_links_that_lead_out_are_followed_so_that_the_copy_stands_alone(tmp_path, staged) -> None:
    outside = write_tree(tmp_path / "outside", 3)
    source = tmp_path / "source"
    source.mkdir()
    (source / "folder").symlink_to(outside)
    (source / "file").symlink_to("../outside/large")
    assert staged(source, tmp_path / "to").returncode == 0
    assert content(tmp_path / "to" / "folder") == content(outside)
    assert (tmp_path / "to" / "file").read_bytes() == (outside / "large").read_bytes()
    assert not any(path.is_symlink() for path in (tmp_path / "to").rglob("*"))


@pytest.mark.parametrize(
    ("make", "why"),
    [
        (lambda path: path.symlink_to("../nothing"), "broken link to ../nothing"),
        (lambda path: path.symlink_to(path.parent), "a link to a folder that contains it"),
        (os.mkfifo, "neither a file nor a folder nor a link"),
        (lambda path: bound(path), "neither a file nor a folder nor a link"),
    ],
)
def test_what_no_copy_can_hold_is_an_error_that_names_it(tmp_path, staged, make, why) -> None:
    source = write_tree(tmp_path / "source", 2)
    make(source / "odd one")
    done = staged(source, tmp_path / "to")
    assert done.returncode == 1
    assert f"stage failed: {source}/odd one: {why}" in done.stdout
    assert not (tmp_path / "to").exists()


def bound(path: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        here = os.getcwd()
        os.chdir(path.parent)  # a socket's path is short
        try:
            one.bind(path.name)
        finally:
            os.chdir(here)


def test_source_and_target_that_lie_inside_each_other_are_refused(tmp_path, staged) -> None:
    source = write_tree(tmp_path / "source", 2)
    (tmp_path / "alias").symlink_to(source)
    for target, why in (
        (source, "is its own target"),
        (tmp_path / "alias", "is its own target"),
        (source / "inside", f"{source}/inside is inside {source}"),
        (tmp_path, f"{source} is inside {tmp_path}"),
    ):
        done = staged(source, target)
        assert done.returncode == 1
        assert why in done.stdout
    assert not list(source.glob(".*"))


def test_a_source_that_is_not_there_is_named(tmp_path, staged) -> None:
    done = staged(tmp_path / "no", tmp_path / "to")
    assert done.returncode == 1
    assert f"stage failed: {tmp_path}/no: No such file or directory" in done.stdout


# ------------------------------------------------------------------ the second time


def test_a_second_job_finds_it_and_a_source_that_is_gone_does_not_matter(tmp_path, staged) -> None:
    source = write_tree(tmp_path / "source")
    staged(source, tmp_path / "to")
    before = content(tmp_path / "to")
    assert "up to date, 21 files" in staged(source, tmp_path / "to").stdout
    source.rename(tmp_path / "gone")
    done = staged(source, tmp_path / "to")
    assert done.returncode == 0
    assert "up to date, 21 files" in done.stdout
    assert content(tmp_path / "to") == before


def test_a_corrupted_file_is_found_and_copied_again_even_with_its_old_time(
    tmp_path, staged, fault_table
) -> None:
    source = write_tree(tmp_path / "source")
    target = tmp_path / "to"
    staged(source, target)
    bad = target / "large"
    status = bad.stat()
    with bad.open("r+b") as file:
        file.seek(1_000_000)
        byte = file.read(1)
        file.seek(1_000_000)
        file.write(bytes([byte[0] ^ 1]))
    os.utime(bad, ns=(status.st_atime_ns, status.st_mtime_ns))
    done = staged(source, target)
    assert done.returncode == 0
    assert "complete, 21 files" in done.stdout
    assert content(target) == content(source)
    assert "up to date" in staged(source, target).stdout
    fault_table.append(
        "a bit of a staged file changed, size and time as they were: found; mended before use"
    )


def test_what_was_removed_comes_back_and_what_was_added_stays(tmp_path, staged) -> None:
    source = write_tree(tmp_path / "source")
    (source / "link").symlink_to("large")
    target = tmp_path / "to"
    staged(source, target)
    (target / "part 1" / "0001").unlink()
    (target / "link").unlink()
    (target / "mine").write_text("mine")
    done = staged(source, target)
    assert f": {target}/part 1/0001, {target}/link (2 in all)" in done.stdout
    (target / "mine").unlink()
    assert content(target) == content(source)


def test_a_file_that_was_only_touched_is_read_and_not_copied(tmp_path, staged) -> None:
    source = write_tree(tmp_path / "source")
    staged(source, tmp_path / "to")
    inode = (tmp_path / "to" / "large").stat().st_ino
    (tmp_path / "to" / "large").chmod(0o600)
    (tmp_path / "to" / "large").chmod(0o644)
    assert "complete" in staged(source, tmp_path / "to").stdout
    assert (tmp_path / "to" / "large").stat().st_ino == inode
    assert "up to date" in staged(source, tmp_path / "to").stdout


def test_a_source_that_has_changed_is_staged_again_and_only_what_changed(tmp_path, staged) -> None:
    source = write_tree(tmp_path / "source")
    staged(source, tmp_path / "to")
    inode = (tmp_path / "to" / "large").stat().st_ino
    (source / "part 0" / "0000").write_text("new")
    (source / "another").write_text("another")
    done = staged(source, tmp_path / "to")
    assert f"{source} has changed" in done.stdout
    assert content(tmp_path / "to") == content(source)
    assert (tmp_path / "to" / "large").stat().st_ino == inode


def test_a_target_without_a_record_is_compared_and_not_copied_again(tmp_path, staged) -> None:
    source = write_tree(tmp_path / "source")
    target = tmp_path / "to"
    staged(source, target)
    record_of(target).unlink()
    inode = (target / "large").stat().st_ino
    assert "complete" in staged(source, target).stdout
    assert content(target) == content(source)
    assert (target / "large").stat().st_ino == inode


def test_nothing_is_removed_to_make_room_for_another_kind(tmp_path, staged) -> None:
    source = write_tree(tmp_path / "source")
    (tmp_path / "to" / "large").mkdir(parents=True)
    (tmp_path / "file").touch()
    done = staged(source, tmp_path / "to")
    assert done.returncode == 1
    assert f"{tmp_path}/to/large is a folder, but a file in the source: move it away" in done.stdout
    done = staged(source, tmp_path / "file")
    assert done.returncode == 1
    assert (
        f"{tmp_path}/file is a file, but its source {source} is a folder: move the" in done.stdout
    )


def test_rereading_finds_what_no_time_tells(tmp_path, staged) -> None:
    """A disk that rots changes no time; so the record gets the times after the change."""
    source = write_tree(tmp_path / "source")
    target = tmp_path / "to"
    staged(source, target)
    with (target / "large").open("r+b") as file:
        file.write(b"rotten")
    status = (target / "large").stat()
    record = record_of(target)
    data = json.loads(record.read_text())
    data["files"]["large"][4:6] = status.st_mtime_ns, status.st_ctime_ns
    record.write_text(json.dumps(data))
    assert "up to date" in staged(source, target).stdout
    assert "complete" in staged("--reread", source, target).stdout
    assert content(target) == content(source)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"version": 99}'])
def test_a_record_that_cannot_be_read_is_none(tmp_path, staged, text) -> None:
    source = write_tree(tmp_path / "source", 3)
    staged(source, tmp_path / "to")
    record_of(tmp_path / "to").write_text(text)
    assert "complete" in staged(source, tmp_path / "to").stdout
    assert "up to date" in staged(source, tmp_path / "to").stdout
