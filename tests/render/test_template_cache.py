"""Compiled templates are kept for the next start; without a place for them a render works, too."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

import pytest

EXAMPLE = pathlib.Path(__file__).parents[2] / "examples" / "tiny-gpt.yaml"


def render(folder: pathlib.Path, **environment: str) -> str:
    program = "from clusterjobs.cli.main import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", program, "render", str(EXAMPLE), "-o", str(folder / "out")],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return (folder / "out" / "job.sh").read_text()


def test_a_second_render_uses_the_compiled_templates(tmp_path: pathlib.Path) -> None:
    caches = tmp_path / "caches"
    first = render(tmp_path, XDG_CACHE_HOME=str(caches))
    (folder,) = (caches / "clusterjobs").iterdir()
    assert folder.stat().st_mode & 0o077 == 0
    kept = {file: file.stat().st_mtime_ns for file in folder.iterdir()}
    assert kept
    assert render(tmp_path, XDG_CACHE_HOME=str(caches)) == first
    assert {file: file.stat().st_mtime_ns for file in folder.iterdir()} == kept


@pytest.mark.parametrize("place", ["/dev/null", "/proc/nowhere"])
def test_without_a_place_for_the_cache_a_render_works(tmp_path: pathlib.Path, place: str) -> None:
    assert render(tmp_path, XDG_CACHE_HOME=place).startswith("#!/bin/bash")


def test_a_damaged_cache_is_not_used(tmp_path: pathlib.Path) -> None:
    caches = tmp_path / "caches"
    first = render(tmp_path, XDG_CACHE_HOME=str(caches))
    (folder,) = (caches / "clusterjobs").iterdir()
    for number, file in enumerate(sorted(folder.iterdir())):
        file.write_bytes(b"" if number % 2 else b"damaged")
    assert render(tmp_path, XDG_CACHE_HOME=str(caches)) == first
