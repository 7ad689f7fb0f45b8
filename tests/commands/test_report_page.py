"""clusterjobs report --html: a whole page from real logs, or a message."""

from __future__ import annotations

import pathlib

import pytest
from case_files import Case, read_cases

LOGS = sorted((pathlib.Path(__file__).parents[1] / "report/logs").glob("*.log"))


def check_page(clusterjobs, folder: pathlib.Path, log: str | pathlib.Path) -> None:
    outcome = clusterjobs("report", log, "--html", "report.html")
    assert outcome.code == 0, outcome.err
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert text.startswith("<!doctype html>")
    assert text.endswith("</html>\n")


@pytest.mark.parametrize("log", LOGS, ids=lambda log: log.stem)
def test_every_log_gives_a_page(clusterjobs, folder: pathlib.Path, log: pathlib.Path) -> None:
    check_page(clusterjobs, folder, log)


@pytest.mark.parametrize("case", read_cases("logs/*.txt"), ids=str)
def test_every_odd_log_gives_a_page(clusterjobs, folder: pathlib.Path, case: Case) -> None:
    case.write(folder)
    check_page(clusterjobs, folder, *case.files)


def test_page_of_several_logs_compares_them(clusterjobs, folder: pathlib.Path) -> None:
    outcome = clusterjobs("report", *LOGS, "--html", "report.html")
    assert outcome.code == 0, outcome.err
    text = (folder / "report.html").read_text(encoding="utf-8")
    assert text.count("<h2>Side by side</h2>") == 1
    assert "<h2>Comparison</h2>" not in text
    assert len(text) < 1_000_000


def test_page_that_cannot_be_written_is_an_error(clusterjobs, folder: pathlib.Path) -> None:
    outcome = clusterjobs("report", LOGS[0], "--html", "missing/report.html")
    assert outcome.code == 1
    assert "cannot write missing/report.html: No such file or directory" in outcome.err
