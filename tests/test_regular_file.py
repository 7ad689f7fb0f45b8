"""Files in folders of other users are opened only if they are regular files."""

from __future__ import annotations

import os
import pathlib

import pytest

from clusterjobs.files import open_regular


def test_a_regular_file_is_opened(tmp_path: pathlib.Path) -> None:
    (tmp_path / "a").write_text("text")
    with open_regular(tmp_path / "a") as file:
        assert file.read() == b"text"


@pytest.mark.parametrize("name", ["link", "pipe", "folder", "missing", "a\0b"])
def test_everything_else_is_an_oserror(tmp_path: pathlib.Path, name: str) -> None:
    (tmp_path / "a").write_text("text")
    (tmp_path / "link").symlink_to("a")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match=r"."):
        open_regular(tmp_path / name)
