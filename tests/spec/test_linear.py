"""Reading a spec that is four times as long takes about four times as many steps of Python."""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import pytest

from clusterjobs.errors import InputError
from clusterjobs.frameworks import option_models
from clusterjobs.spec.load import Below, load_spec
from clusterjobs.yaml import document

BASE = "name: a\ncluster: small\nframework: command\ncommand: [./run]\n"


def of_lines(key: str, line: str) -> Callable[[int], str]:
    """The names of each text are its own: what is known of a name is kept."""
    return lambda count: (
        f"{BASE}{key}:\n"
        + "".join(f"  {line}\n".replace("%", f"{count}x{i}") for i in range(count))
    )


LONG = {
    "equal keys": lambda count: BASE + "a: 1\n" * count,
    "unknown keys": lambda count: BASE + "".join(f"x{i}: 1\n" for i in range(count)),
    "aliases": of_lines("args", "k%: [&a% [1, 2], *a%]"),
    "arguments": of_lines("args", "a%: 1"),
    "references": of_lines("args", "a%: '{{ name }}'"),
    "variables": of_lines("env", "A%: x"),
    "parameters": of_lines("parameters", "A%: x"),
    "secrets": of_lines("secrets", "A%: {file: /s%}"),
    "steps": of_lines("before", "- [cp, a%, b]"),
    "options of sbatch": of_lines("sbatch", "a%: x"),
}  # fmt: skip


def steps(read: Callable[[], object]) -> int:
    """How many lines and calls of Python are executed."""
    count = 0

    def trace(frame: FrameType, event: str, arg: Any) -> Any:
        nonlocal count
        count += 1
        return trace

    sys.settrace(trace)
    try:
        with contextlib.suppress(InputError):
            read()
    finally:
        sys.settrace(None)
    return count


@pytest.mark.parametrize("shape", LONG)
def test_a_spec_four_times_as_long_takes_four_times_the_steps(shape: str) -> None:
    def read(count: int) -> int:
        text = LONG[shape](count)
        return steps(lambda: load_spec(text, "exp.yaml", option_models()))

    read(10)  # what is made once
    few, many = read(200), read(800)  # in this order: the answers for some paths are kept
    assert many < 4.5 * few + 5_000


def merging(count: int) -> str:
    """Each level merges the one above."""
    lines = ["a0: &a0 {k: 1}"]
    lines += [f"a{i}: &a{i} {{<<: [*a{i - 1}, *a{i - 1}]}}" for i in range(1, count)]
    return "\n".join(lines)


def test_merge_keys_that_are_merged_again_are_followed_once() -> None:
    def read(count: int) -> int:
        return steps(lambda: document.load(merging(count), "config.yaml", "1.1"))

    read(5)
    assert read(800) < 4.5 * read(200) + 10_000


@pytest.mark.parametrize(
    "lines",
    [
        "all:\n  env:\n" + "    A%: x\n",
        "all:\n  setup:\n    prepend:\n" + "    - echo %\n",
        "all:\n" + "  x%: 1\n",
        "clusters:\n" + "  small%: {}\n",
    ],
)
def test_defaults_four_times_as_long_take_four_times_the_steps(lines: str) -> None:
    *head, line = lines.splitlines(keepends=True)

    def read(count: int) -> int:
        text = "".join([*head, *(line.replace("%", str(i)) for i in range(count))])
        below = Below([("defaults.yaml", text)], lambda: ["small"])
        return steps(lambda: load_spec(BASE, "exp.yaml", option_models(), below=below))

    read(10)  # what is made once
    assert read(800) < 4.5 * read(200) + 5_000
