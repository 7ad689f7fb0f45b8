"""The programs for the nodes, run as a job runs them: by python3, from their own folder."""

from __future__ import annotations

import importlib
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from node_programs import STAGE_FOLDER, command
from preflight_nodes import Preflight, preflight_in

from clusterjobs.resources import node_programs


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
    monkeypatch.syspath_prepend(str(STAGE_FOLDER))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(("stage", "preload", "export")):
            del sys.modules[name]


@pytest.fixture
def programs(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Any]]:
    """Imports a program as a job does: from its own folder."""
    monkeypatch.syspath_prepend(str(node_programs()["watchdog.py"].parent))
    yield importlib.import_module
    for name in ("attempt", "attempt_files", "watchdog", "watchdog_ranks"):
        sys.modules.pop(name, None)


@pytest.fixture
def preflight(tmp_path: pathlib.Path) -> Preflight:
    return preflight_in(tmp_path)
