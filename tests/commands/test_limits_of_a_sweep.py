"""max_running and max_failed belong to an array: a sweep of several jobs says what they mean."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
import yaml
from planned_sweeps import BASE


@pytest.mark.parametrize(
    ("sweep", "expected"),
    [
        ({"grid": {"env.A": ["1", "2"]}}, ""),
        (
            {"grid": {"nodes": [1, 2], "env.A": ["1", "2"]}},
            "{key}: 2 holds for each of the 2 jobs of this sweep",
        ),
        (
            {"grid": {"env.A": ["1", "2"]}, "array": False},
            "{key}: 2 has no effect: each point is a job of its own",
        ),
    ],
)
@pytest.mark.parametrize("key", ["max_running", "max_failed"])
def test_a_limit_says_what_it_holds_for(
    key: str,
    sweep: dict[str, object],
    expected: str,
    clusterjobs: Callable[..., object],
    tmp_path: pathlib.Path,
) -> None:
    spec = {**BASE, "env": {"A": "0"}, "sweep": {**sweep, key: 2}}
    (tmp_path / "exp.yaml").write_text(yaml.safe_dump(spec))
    outcome = clusterjobs("render", tmp_path / "exp.yaml", "-o", tmp_path / "out")
    assert outcome.code == 0, outcome.err
    assert (f"{key}: 2" in outcome.err) is bool(expected)
    assert expected.format(key=key) in outcome.err
