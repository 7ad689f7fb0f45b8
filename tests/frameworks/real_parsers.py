"""fairseq's own parsers, where fairseq is built: a fixture, and what it returns."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable, Iterable
from typing import Any

import pytest

TESTS = pathlib.Path(__file__).parents[1]
IMPOSSIBLE = 75  # of prepare_frameworks.py
Parse = Callable[[Iterable[Iterable[str]]], list[dict[str, Any]]]


@pytest.fixture(scope="session")
def fairseq_parses() -> Parse:
    """What fairseq's own parsers make of command lines, with all of them in one process."""
    prepare = [sys.executable, str(TESTS / "prepare_frameworks.py")]
    done = subprocess.run(prepare, capture_output=True, text=True, timeout=1500)
    if done.returncode == IMPOSSIBLE:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    environment = {**os.environ, "PYTHONPATH": done.stdout.splitlines()[-2]}

    def parse(commands: Iterable[Iterable[str]]) -> list[dict[str, Any]]:
        program = [sys.executable, str(TESTS / "frameworks" / "fairseq_parsers.py")]
        asked = json.dumps([list(command) for command in commands])
        done = subprocess.run(
            program, input=asked, capture_output=True, text=True, env=environment, timeout=400
        )
        assert done.returncode == 0, done.stderr
        answers: list[dict[str, Any]] = json.loads(done.stdout.splitlines()[-1])
        return answers

    return parse
