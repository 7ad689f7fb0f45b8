"""The names of `--json` are stable, and docs/report.md lists each of them."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

from clusterjobs.report.exports import report_data
from clusterjobs.report.logs.records import Log, Window
from clusterjobs.report.make_run import make_run
from clusterjobs.report.run import Job

_PAGE = pathlib.Path(__file__).parents[2] / "docs" / "report.md"
_LOSSES = (3.0, float("nan"), float("inf"), *[2.0] * 9)
_NAMES = {"name", "framework", "attempts", "steps", "samples_per_second", "tokens_per_second"}
_NAMES |= {"tflops_per_gpu", "mfu", "hfu", "goodput", "lost_steps", "lost_seconds", "series"}
_LOST = {"queue", "staging", "preflight", "saving", "restart", "data_wait"}


def data() -> dict[str, Any]:
    windows = tuple(
        Window(n, {"seconds": 1.0, "batch": 8.0, "loss": loss}, 1)
        for n, loss in enumerate(_LOSSES, 1)
    )
    return report_data([make_run(Log("megatron-lm", windows), Job(name="a", gpus=8))], [])


def names_in(value: object) -> Iterator[str]:
    if isinstance(value, dict):
        yield from value
        for inner in value.values():
            yield from names_in(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from names_in(inner)


def test_scripts_find_the_names_that_they_were_promised() -> None:
    (run,) = data()["runs"]
    assert run.keys() >= _NAMES
    assert run["lost_seconds"].keys() >= _LOST
    assert run["tflops_per_gpu"] == {"mfu": None, "hfu": None}
    assert run["series"]["loss"][:4] == [[1, 3.0], [2, None], [3, None], [4, 2.0]]


def test_no_number_is_written_that_json_does_not_have() -> None:
    json.dumps(data(), allow_nan=False)


def test_the_page_lists_every_name() -> None:
    page = _PAGE.read_text(encoding="utf-8")
    (run,) = data()["runs"]
    series = run.pop("series")
    assert series
    run.pop("spread")  # the names in it are quantities, which the page lists for patterns
    run.pop("derived")
    assert [name for name in names_in(run) if f"`{name}`" not in page] == []
