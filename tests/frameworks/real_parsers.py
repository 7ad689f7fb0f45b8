"""fairseq's own parsers, where fairseq is built: a fixture, and what it returns."""

from __future__ import annotations

import functools
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


@functools.cache
def fairseq_environment() -> dict[str, str]:
    """The environment of a Python that has fairseq; a skip where it cannot be built."""
    prepare = [sys.executable, str(TESTS / "prepare_frameworks.py")]
    done = subprocess.run(prepare, capture_output=True, text=True, timeout=1500)
    if done.returncode == IMPOSSIBLE:
        pytest.skip(done.stderr.strip().splitlines()[-1])
    assert done.returncode == 0, done.stderr
    return {**os.environ, "PYTHONPATH": done.stdout.splitlines()[-2]}


@pytest.fixture(scope="session")
def fairseq_parses() -> Parse:
    """What fairseq's own parsers make of command lines, with all of them in one process."""
    environment = fairseq_environment()

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
