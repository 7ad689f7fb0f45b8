"""preload.py with a stand-in for lfs: in bounded batches, until nothing is released any more."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from node_programs import STAGE_FOLDER, STAND_INS, command, write_tree


@pytest.fixture
def preloaded(tmp_path) -> Callable[..., tuple[subprocess.CompletedProcess[str], dict[str, Any]]]:
    """`preloaded(folder, {path: asks until it is there})`: what was said, and lfs's own notes."""
    tools = tmp_path / "bin"
    tools.mkdir()
    lfs = tools / "lfs"
    lfs.write_text(f"#!{sys.executable}\n" + (STAND_INS / "lfs.py").read_text())
    lfs.chmod(0o755)
    notes = tmp_path / "hsm"

    def run(
        folder: pathlib.Path, away: dict[str, int], program: list[str] | None = None, **more: Any
    ) -> tuple[subprocess.CompletedProcess[str], dict[str, Any]]:
        notes.write_text(json.dumps({"away": away, "asked": {}, "calls": [], **more}))
        done = subprocess.run(
            [*(program or command("preload.py")), str(folder)],
            env={**os.environ, "PATH": f"{tools}:/usr/bin:/bin", "HSM": str(notes)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            check=False,
        )
        return done, json.loads(notes.read_text())

    return run


def all_of(folder: pathlib.Path, asks: int) -> dict[str, int]:
    return {str(path): asks for path in folder.rglob("*") if path.is_file()}


def test_released_files_are_asked_for_and_waited_for(tmp_path, preloaded) -> None:
    folder = write_tree(tmp_path / "books", 30, 1000)
    (folder / "two\nlines: NOOP").write_text("x")
    done, notes = preloaded(folder, all_of(folder, 1))
    assert done.returncode == 0, done.stdout
    assert f"preload {folder}: up to date, 32 files" in done.stdout
    assert set(notes["away"].values()) == {None}
    again, notes = preloaded(folder, {})
    assert "up to date, 32 files" in again.stdout
    assert "hsm_restore" not in [call[0] for call in notes["calls"]]


@pytest.mark.parametrize("limit", ["MAX_PENDING = 4", "MAX_NAMES = 3"])
def test_not_more_files_than_allowed_are_requested_at_once(tmp_path, preloaded, limit) -> None:
    folder = write_tree(tmp_path / "books", 20, 10)
    program = (
        f"import sys; sys.path.insert(0, {str(STAGE_FOLDER)!r}); import preload; "
        f"assert preload.{limit.replace('=', '!=')}; preload.{limit}; "
        "assert preload._POLL_SECONDS; preload._POLL_SECONDS = 0.01; sys.exit(preload.main())"
    )
    done, notes = preloaded(folder, all_of(folder, 1), [sys.executable, "-Bc", program])
    assert done.returncode == 0, done.stdout
    asked = [count for verb, count in notes["calls"] if verb == "hsm_restore"]
    assert sum(asked) == 21
    assert max(asked) <= 4


def test_a_file_that_stays_in_the_bucket_is_named(tmp_path, preloaded) -> None:
    folder = write_tree(tmp_path / "books", 3, 10)
    done, notes = preloaded(folder, {str(folder / "large"): -1, str(folder / "part 1/0001"): 0})
    assert done.returncode == 1
    assert f"preload failed: {folder}/large: not restored (1 file)" in done.stdout
    assert [count for verb, count in notes["calls"] if verb == "hsm_restore"] == [2, 1, 1]


def test_a_folder_without_an_association_says_what_to_look_at(tmp_path, preloaded) -> None:
    (tmp_path / "books").mkdir()
    done, _ = preloaded(tmp_path / "books", {})
    assert done.returncode == 1
    assert "the folder is empty: is it associated with the bucket" in done.stdout
    done, _ = preloaded(tmp_path / "nothing", {})
    assert done.returncode == 1
    assert f"{tmp_path}/nothing: no such folder: is it associated" in done.stdout


def test_what_lfs_complains_of_is_passed_on(tmp_path, preloaded) -> None:
    folder = write_tree(tmp_path / "books", 3, 10)
    done, _ = preloaded(folder, all_of(folder, 1), refuse=True)
    assert done.returncode == 1
    assert "lfs hsm_restore: Cannot send HSM request" in done.stdout


def test_without_lfs_this_is_no_lustre(tmp_path) -> None:
    done = subprocess.run(
        command("preload.py", tmp_path),
        env={"PATH": ""},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "no lfs on this node" in done.stdout
