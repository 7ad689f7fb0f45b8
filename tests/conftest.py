"""What many tests share: one command line run in this process, and a user without surprises."""

from __future__ import annotations

import pathlib
import shutil
from collections.abc import Callable
from dataclasses import dataclass

import pytest

from clusterjobs.commands import main

CASES = pathlib.Path(__file__).with_name("cases")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="Rewrite the expected files of tests/cases instead of comparing with them.",
    )


@dataclass(frozen=True)
class Outcome:
    """What one command line said, and its exit code."""

    code: int
    out: str
    err: str


@pytest.fixture
def site_home(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A user's config folder with the site.yaml of the cases."""
    home = tmp_path_factory.mktemp("home")
    (home / "clusterjobs").mkdir()
    shutil.copy(CASES / "site.yaml", home / "clusterjobs")
    return home


@pytest.fixture
def clusterjobs(
    site_home: pathlib.Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Outcome]:
    """`clusterjobs("render", "exp.yaml")` runs that command line for a user who has a site.yaml."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(site_home))

    def call(*arguments: object) -> Outcome:
        capsys.readouterr()
        code = main.run([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        return Outcome(code, out, err)

    return call


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty folder that is the working folder."""
    path = tmp_path / "work"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


_FAULTS: list[str] = []


@pytest.fixture(scope="session")
def fault_table() -> list[str]:
    """What was broken and what it cost: a line each, printed when all tests are done."""
    return _FAULTS


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _FAULTS:
        terminalreporter.section("faults")
        for line in _FAULTS:
            terminalreporter.write_line(line)
