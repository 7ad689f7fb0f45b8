"""Patterns of the user's own, from the spec's key `report`."""

from __future__ import annotations

import pathlib

import pytest

from clusterjobs.cli import main
from clusterjobs.report.logs.formats.own_pattern import OwnPattern, number_of
from clusterjobs.report.logs.log import read_log
from clusterjobs.report.logs.records import Window


def windows(own: OwnPattern, text: str) -> list[Window]:
    return [one for one in read_log([text.encode()], [own]).records if isinstance(one, Window)]


def test_a_pattern_with_named_groups_reads_the_lines_that_match() -> None:
    own = OwnPattern(
        r"it (?P<step>\d+) of \d+: (?P<loss>[\d.]+) at (?P<samples_per_second>\S+)/s", {}
    )
    found = windows(own, "start\nit 3 of 9: 2.5 at 6,123.5/s\nit 4 of 9: 2.25 at 100/s\nend\n")
    assert [(one.step, one.values) for one in found] == [
        (3, {"loss": 2.5, "samples_per_second": 6123.5}),
        (4, {"loss": 2.25, "samples_per_second": 100.0}),
    ]


def test_patterns_of_one_value_each_are_searched_for_in_the_same_line() -> None:
    own = OwnPattern(None, {"step": r"Schritt (\d+)", "loss": r"Verlust ([\d,]+)"})
    found = windows(
        own, "Schritt 1: Verlust 5,125\nSchritt 2\nVerlust 9,0\nVerlust 4,5 Schritt 3\n"
    )
    assert [(one.step, one.values["loss"]) for one in found] == [(1, 5.125), (3, 4.5)]


@pytest.mark.parametrize(
    ("name", "text", "value"),
    [
        ("loss", "3,512", 3.512),
        ("loss", "3.512", 3.512),
        ("loss", "1,234.5", 1234.5),
        ("tokens_per_second", "6,123", 6123.0),
        ("step", "1,000", 1000.0),
        ("loss", "1e-3", 0.001),
        ("loss", "1,2,3", None),
        ("loss", "", None),
        ("loss", None, None),
    ],
)
def test_a_comma_separates_thousands_in_rates_and_decimals_in_values(
    name: str, text: str | None, value: float | None
) -> None:
    assert number_of(name, text) == value


def test_the_spec_says_how_to_read_a_log(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exp.yaml").write_text(
        "name: own\ncluster: small\nframework: command\ncommand: [python3, train.py]\n"
        "report: {step: 'Schritt (\\d+)', samples_per_second: '(\\d+) Beispiele/s'}\n"
    )
    lines = (f"Schritt {step}: 100 Beispiele/s" for step in range(1, 10))
    (tmp_path / "train.log").write_text("\n".join(lines) + "\n")
    log, spec = str(tmp_path / "train.log"), str(tmp_path / "exp.yaml")
    assert main.run(["report", log, "--spec", spec]) == 0
    assert "100 samples/s" in capsys.readouterr().out
    assert main.run(["report", log]) == 0
    assert "no step was found in 9 lines" in capsys.readouterr().out
    (tmp_path / "train.log").write_text("step one, 100 samples\n")
    assert main.run(["report", log, "--spec", spec]) == 0
    text = capsys.readouterr().out
    assert "The spec's key `report` matches no line with both a step and a value.\n" in text
    assert "say in the spec" not in text


def test_a_pattern_that_does_not_come_to_an_end_is_named(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exp.yaml").write_text(
        "name: own\ncluster: small\nframework: command\ncommand: [python3, train.py]\n"
        "report: {pattern: 'step (?P<step>\\d+) (?:\\w+\\s?)*loss (?P<loss>\\d+)'}\n"
    )
    log, spec = str(tmp_path / "train.log"), str(tmp_path / "exp.yaml")
    pathlib.Path(log).write_text(f"step 1 loss 2\nstep 2 {'a' * 60}!\n")
    assert main.run(["report", log, "--spec", spec]) == 1
    error = capsys.readouterr().err
    assert "report: a pattern takes more than 2 s for the line 'step 2 aaa" in error
    assert "a repeat inside a repeat" in error
