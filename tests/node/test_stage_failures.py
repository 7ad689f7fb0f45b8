"""stage.py and errors: after which of them a retry can help, and after which it cannot."""

from __future__ import annotations

import os
import pathlib
import socket
import subprocess
from collections.abc import Callable

import pytest
from node_programs import write_tree


def broken_link(source: pathlib.Path) -> None:
    (source / "part 1" / "link").symlink_to("/nowhere/at/all")


def cycle(source: pathlib.Path) -> None:
    (source / "part 1" / "link").symlink_to(source.resolve())


def special_file(source: pathlib.Path) -> None:
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(os.path.relpath(source / "part 1" / "socket"))


@pytest.mark.parametrize(
    ("break_it", "what", "hint"),
    [
        (broken_link, "part 1/link: broken link to /nowhere/at/all", "remove it, or put its"),
        (cycle, "part 1/link: a link to a folder that contains it", "remove it from the source"),
        (special_file, "part 1/socket: neither a file nor a folder nor a link", "move it away"),
    ],
)
def test_a_source_that_cannot_be_copied_is_not_tried_again(
    tmp_path, staged, monkeypatch, break_it: Callable[[pathlib.Path], None], what, hint
) -> None:
    monkeypatch.chdir(tmp_path)  # a socket's path is short
    source = write_tree(tmp_path / "source", 8)
    break_it(source)
    done = staged(source, tmp_path / "to", STAGE_DIR=str(tmp_path))
    assert done.returncode == 1
    assert f"stage failed: {source}/{what}: {hint}" in done.stdout
    assert (tmp_path / "source_failed").exists()


def test_a_damaged_archive_is_not_tried_again(tmp_path, staged) -> None:
    archive = tmp_path / "a.tar.gz"
    source = write_tree(tmp_path / "source", 8)
    subprocess.run(["tar", "-czf", archive, "-C", source, "."], check=True)
    archive.write_bytes(archive.read_bytes()[:-100])
    done = staged("--unpack", archive, tmp_path / "to", STAGE_DIR=str(tmp_path))
    assert done.returncode == 1
    said = f"stage failed: {archive}: damaged gzip data: gzip: stdin: unexpected end of file: copy"
    assert said in done.stdout
    assert (tmp_path / "source_failed").exists()


def test_a_text_with_the_name_of_an_archive_is_shown(tmp_path, staged) -> None:
    archive = tmp_path / "a.tar.gz"
    archive.write_text("<html>404 Not Found</html>\n" * 99)
    done = staged("--unpack", archive, tmp_path / "to", STAGE_DIR=str(tmp_path))
    said = "it starts with '<html>404 Not Found</html>': put the archive itself there, or leave"
    assert f"{archive}: is no tar archive, or damaged at its start: {said}" in done.stdout
    assert (tmp_path / "source_failed").exists()


@pytest.mark.parametrize(("error", "is_final"), [("EACCES", True), ("EIO", False)])
def test_a_refusal_of_the_system_is_final_and_a_fault_is_not(modules, error, is_final) -> None:
    import errno

    import stage_log

    found = stage_log.os_failure("/x", OSError(getattr(errno, error), "said"))
    assert isinstance(found, stage_log.SourceError) == is_final


def test_a_worker_hands_over_what_kind_of_error_it_was(modules) -> None:
    import stage_log
    import stage_pool

    def work(kind: str) -> None:
        raise getattr(stage_log, kind)("why")

    for kind in ("SourceError", "StageError"):
        with pytest.raises(stage_log.StageError, match="why") as caught:
            stage_pool.run_parallel(work, [kind], lambda *_: ())
        assert type(caught.value).__name__ == kind


@pytest.mark.parametrize(("needed", "is_final"), [(2, True), (0.999, False)])
def test_a_disk_that_is_too_small_even_when_empty_is_final(
    tmp_path, modules, monkeypatch, needed, is_final
) -> None:
    import stage_list
    import stage_log
    import stage_record
    import stage_space

    paths = stage_record.StagePaths(str(tmp_path / "to"))
    paths.make_folder()
    system = os.statvfs(tmp_path)
    whole = system.f_blocks * system.f_frsize
    monkeypatch.setattr(stage_space, "_measure", lambda _: (0, 0))
    monkeypatch.setattr(stage_space, "_SPARE", 1)
    with pytest.raises(stage_log.StageError, match="not enough space") as caught:
        stage_space.check_space(paths, stage_list.EMPTY, int(needed * whole))
    assert isinstance(caught.value, stage_log.SourceError) == is_final
