"""Counts what was tried, and prints the counts when the tests have run."""

from __future__ import annotations

import collections
import os
import pathlib
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, Phase, settings
from stage import Stage

# The same specs every time, so that a failure is nobody's bad luck; ADVERSARIAL_SPECS=5000 tries
# more of them, and others each time. A failing spec is shown as it is: to make one smaller takes
# minutes of scripts, which ADVERSARIAL_SHRINK=1 spends.
SPECS = int(os.environ.get("ADVERSARIAL_SPECS", "300"))
settings.register_profile(
    "adversarial",
    derandomize="ADVERSARIAL_SPECS" not in os.environ,
    database=None,
    deadline=None,
    max_examples=SPECS,
    phases=[Phase.generate, *([Phase.shrink] if "ADVERSARIAL_SHRINK" in os.environ else [])],
    suppress_health_check=list(HealthCheck),
)

_TOTAL: dict[str, collections.Counter[str]] = {}


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[collections.Counter[str]]:
    """Counts of this test: tried, intact, refused, executed, directives, directives wrong."""
    counts: collections.Counter[str] = collections.Counter()
    yield counts
    _TOTAL.setdefault(request.node.originalname, collections.Counter()).update(counts)


@pytest.fixture(scope="session")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Stage:
    return Stage(pathlib.Path(tmp_path_factory.mktemp("stage")))


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if not _TOTAL:
        return
    terminalreporter.section("hostile values")
    for name, counts in _TOTAL.items():
        terminalreporter.write_line(f"{name}: {_line(counts)}")
    if len(_TOTAL) > 1:
        everything: collections.Counter[str] = collections.Counter()
        for counts in _TOTAL.values():
            everything.update(counts)
        terminalreporter.write_line(f"together: {_line(everything)}")


def _line(counts: collections.Counter[str]) -> str:
    text = (
        f"{counts['tried']} values tried, {counts['intact']} intact, {counts['refused']} refused "
        f"with their position, {counts['executed']} executed"
    )
    if counts["directives"]:
        text += f"; {counts['directives']} directives, {counts['directives_wrong']} lost or added"
    if counts["scripts"]:
        text += f"; {counts['scripts']} scripts run"
    return text
