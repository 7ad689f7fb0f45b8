"""Each file in `upgrades/` contains a config, its upgraded text, the changes, and the rest.

A line of the last parts is `line: message | start of the hint`. Files without the part `notes`
leave open what is said of clusters that exist.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Sequence

import pytest

from clusterjobs.errors import Problem
from clusterjobs.validation.upgrade import upgrade

CASES = sorted(pathlib.Path(__file__).with_name("upgrades").glob("*.case"))


def load_case(path: pathlib.Path) -> tuple[str, dict[str, str]]:
    with path.open(encoding="utf-8", newline="") as file:  # keeps \r\n
        config, *rest = re.split(r"(?m)^--- (\w+) ---\n", file.read())
    return config, dict(zip(rest[::2], rest[1::2], strict=True))


def assert_problems(found: Sequence[Problem], expected: str) -> None:
    lines = [f"{p.where.line if p.where else 0}: {p.what} | {p.hint}" for p in found]
    wanted = expected.splitlines()
    assert len(lines) == len(wanted), lines
    for line, start in zip(lines, wanted, strict=True):
        assert line.startswith(start.removesuffix("...")), line


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.stem)
def test_upgrade(path: pathlib.Path) -> None:
    config, expected = load_case(path)
    result = upgrade(config, "c.yaml")
    assert result.text == expected["upgraded"]
    assert_problems(result.changed, expected["changed"])
    assert_problems(result.left, expected["left"])
    if "notes" in expected:
        assert_problems(result.notes, expected["notes"])
    assert upgrade(result.text, "c.yaml").text == result.text


def test_cases_exist() -> None:
    assert len(CASES) >= 10
