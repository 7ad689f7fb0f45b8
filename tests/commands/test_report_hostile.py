"""clusterjobs report of hostile logs: no text acts, and no number is an internal error."""

from __future__ import annotations

import csv
import io
import json
import os
import pathlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from example_runs import hostile_run, short_run

from clusterjobs.report.compare import comparison
from clusterjobs.report.exports import csv_text
from clusterjobs.report.text import run_text, table_text

Clusterjobs = Callable[..., Any]
_LINES = "".join(f"step {step} loss {step / 9} samples/s {100 + step}\n" for step in range(1, 31))
# The largest numbers, the smallest one, and none: their sums, quotients and squares overflow.
_EXTREMES = ("1.7976931348623157e308", "-1.79e308", "5e-324", "0", "nan", "inf", "1e300")
_NAMES = (b"bad\xff.log", b"a\x1b[31m\nb.log", "\u202egpj.log".encode(), b"=1+1.log")


def log_with(*values: str) -> str:
    return "".join(
        f"step {step} loss {value} samples/s {value} grad_norm {values[0]}\n"
        for step in range(1, 31)
        for value in [values[step % len(values)]]
    )


@pytest.mark.parametrize("value", _EXTREMES)
@pytest.mark.parametrize("other", ["350", *_EXTREMES])
def test_no_number_is_an_internal_error(
    clusterjobs: Clusterjobs, folder: pathlib.Path, value: str, other: str
) -> None:
    (folder / "train.log").write_text(log_with(value, other))
    outcome = clusterjobs("report", "train.log", "--html", "a.html", "--csv", "a.csv")
    assert outcome.code == 0, outcome.err
    outcome = clusterjobs("report", "train.log", "--json")
    json.loads(outcome.out, parse_constant=pytest.fail)  # JSON has neither NaN nor Infinity


@pytest.mark.parametrize("name", _NAMES)
def test_no_name_of_a_file_acts(
    clusterjobs: Clusterjobs, folder: pathlib.Path, name: bytes
) -> None:
    pathlib.Path(os.fsdecode(name)).write_text(_LINES)
    outcome = clusterjobs("report", os.fsdecode(name), "--html", "a.html", "--csv", "a.csv")
    assert outcome.code == 0, outcome.err
    for text in (outcome.out, (folder / "a.html").read_text(), (folder / "a.csv").read_text()):
        assert not {"\x1b", "\u202e"} & set(text)
    rows = list(csv.reader(io.StringIO((folder / "a.csv").read_text())))
    assert {row[0] for row in rows[1:]} == {rows[1][0]}
    assert not rows[1][0].startswith("=")


def test_texts_of_a_run_cannot_change_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    run = hostile_run()
    for text in (run_text(run, True), table_text(comparison([run, run])), csv_text([run])):
        assert not {"\x1b", "\x00", "\x07", "\u202e"} & set(text)


def test_a_line_break_in_a_text_makes_no_line_of_its_own() -> None:
    forged = "x\nspeed       1,000,000 samples/s"
    run = replace(short_run(), name=forged, notes=(forged,), advice=(forged,))
    for text in (run_text(run, True), table_text(comparison([run, run])), csv_text([run])):
        assert "\nspeed" not in text


@pytest.mark.parametrize("file", ["attempts.jsonl", "plan.json"])
@pytest.mark.parametrize(
    "value", [10**400, -(10**400), 10**30, 0, True], ids=lambda one: f"{one}"[:9]
)
def test_no_number_of_a_jobs_records_is_an_internal_error(
    clusterjobs: Clusterjobs, folder: pathlib.Path, file: str, value: int
) -> None:
    job = folder / "logs" / "4711"
    job.mkdir(parents=True)
    (job / "job.log").write_text(_LINES)
    numbers = ("attempt", "seconds", "ended", "began", "submitted", "exit_code")
    attempt = {"reason": "done", **dict.fromkeys(numbers, 1)}
    derived = {"world_size": 8, "ranks_per_node": 4, "gpus_per_node": 4}
    for name in numbers if file == "attempts.jsonl" else derived:
        (job / "attempts.jsonl").write_text(json.dumps({**attempt, name: value}) + "\n")
        plan = {"name": "a", "derived": {**derived, name: value}}
        (job / "plan.json").write_text(json.dumps(plan))
        for words in ([], ["--json"]):
            outcome = clusterjobs("report", job, *words)
            assert outcome.code == 0, (name, outcome.err)
