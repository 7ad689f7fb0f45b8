"""The programs for the nodes, run as a job runs them: by python3, from their own folder."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
from preflight_nodes import Preflight, preflight_in

import clusterjobs

PROGRAMS = pathlib.Path(clusterjobs.__file__).with_name("node")
STAND_INS = pathlib.Path(__file__).with_name("stand_ins")


def command(program: str, *arguments: object) -> list[str]:
    return [sys.executable, "-B", str(PROGRAMS / program), *map(str, arguments)]


@pytest.fixture
def staged() -> Callable[..., subprocess.CompletedProcess[str]]:
    """`staged(source, target)` runs stage.py to its end."""

    def run(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command("stage.py", *arguments),
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=120,
            check=False,
        )

    return run


@pytest.fixture
def modules(monkeypatch: pytest.MonkeyPatch) -> None:
    """The programs' own modules can be imported, and are forgotten afterwards."""
    monkeypatch.syspath_prepend(str(PROGRAMS))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("stage", "preload", "export")):
            del sys.modules[name]


@pytest.fixture
def preflight(tmp_path: pathlib.Path) -> Preflight:
    return preflight_in(tmp_path)


def content(folder: pathlib.Path) -> dict[bytes, object]:
    """All below a folder: bytes of files, what links say, permissions."""
    root, found = os.fsencode(folder), {}
    for above, folders, files in os.walk(root):
        for name in folders + files:
            path = os.path.join(above, name)
            mode = os.lstat(path).st_mode
            if os.path.islink(path):
                found[path[len(root) :]] = os.readlink(path)
            elif os.path.isdir(path):
                found[path[len(root) :]] = mode
            else:
                with open(path, "rb") as file:
                    found[path[len(root) :]] = (mode, file.read(), os.lstat(path).st_mtime_ns)
    return found


def write_tree(root: pathlib.Path, files: int = 20, large: int = 3 << 20) -> pathlib.Path:
    """A data set of small files in folders, and one larger file."""
    for number in range(files):
        path = root / f"part {number % 4}" / f"{number:04}"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(os.urandom(number * 37 % 3000))
    (root / "large").write_bytes(os.urandom(large))
    return root
