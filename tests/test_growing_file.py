"""The last lines of a file, read from its end, and what is added afterwards."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusterjobs import files as growing_file
from clusterjobs.files import GrowingFile


def last(path: pathlib.Path, lines: int, counts: Callable[[str], bool] | None = None) -> str:
    file = GrowingFile(path)
    file.skip_to_last(lines, counts)
    return "".join(file.new_parts())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text("aé\n", max_size=60), st.integers(0, 9), st.integers(1, 9))
def test_the_last_lines_whatever_the_blocks(
    tmp_path: pathlib.Path, text: str, lines: int, block: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(growing_file, "_BLOCK", block)
        (tmp_path / "log").write_text(text)
        expected = text.splitlines(keepends=True)[-lines:] if lines else []
        assert last(tmp_path / "log", lines) == "".join(expected)


def test_lines_that_do_not_count_are_skipped(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "log").write_text("1: a\n0: b\n1: c\n0: d\n")
    for block in (1, 3, 5, 100):
        monkeypatch.setattr(growing_file, "_BLOCK", block)
        assert (
            last(tmp_path / "log", 2, lambda line: line.startswith("1: "))
            == "1: a\n0: b\n1: c\n0: d\n"
        )
        assert last(tmp_path / "log", 1, lambda line: line.startswith("1: ")) == "1: c\n0: d\n"
        assert last(tmp_path / "log", 1, lambda line: line == "0: b") == "0: b\n1: c\n0: d\n"


def test_what_is_added_after_the_last_lines_follows(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    path.write_text("a\nb\nc")
    file = GrowingFile(path)
    file.skip_to_last(1)
    assert file.new_text() == "c"
    with path.open("a") as log:
        log.write("d\ne\n")
    assert file.new_text() == "d\ne\n"


def test_of_a_file_of_many_gigabytes_only_the_end_is_read(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "log"
    with path.open("wb") as log:
        log.truncate(1 << 40)  # holes: no disk is used, but reading it would take an hour
        log.seek(0, 2)
        log.write(b"\nlast but one\nlast\n")
    assert last(path, 2) == "last but one\nlast\n"


def test_a_missing_file_has_no_last_lines(tmp_path: pathlib.Path) -> None:
    assert last(tmp_path / "none", 5) == ""
