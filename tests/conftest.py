"""What many tests share: one command line run in this process, and a user without surprises."""

from __future__ import annotations

import collections
import itertools
import pathlib
import resource
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import fault_suite
import pytest
from case_files import Case
from hypothesis import HealthCheck, settings
from slurm_versions import slurm_or_skip

from clusterjobs import registry
from clusterjobs.cli import main
from clusterjobs.lab.slurm import OWN, VERSIONS, Slurm
from clusterjobs.sites import folders as site_folders

# A machine that is busy is no failure.
settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("busy")

CASES = pathlib.Path(__file__).with_name("cases")


# Slurm's programs raise the limit to the most they may: one that crashes would leave a file here.
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--update-goldens",
        action="store_true",
        help="Rewrite the expected files of tests/cases instead of comparing with them.",
    )
    parser.addoption(
        "--faults",
        action="store_true",
        help="Run the whole fault suite, with its long forms, and nothing else (make faults).",
    )
    parser.addoption(
        "--slurm",
        choices=VERSIONS,
        default=OWN,
        help="The version of Slurm of the labs; own (the default) is this machine's.",
    )


_SLOW = ("aws", "lab", "slow", "frameworks")  # markers, the slowest last


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The long forms of the fault suite run only with --faults, or if -m names their marker.

    The slowest files come first, so that at the end no process works alone.
    """
    slowness: dict[pathlib.Path, int] = collections.defaultdict(int)
    for item in items:
        marks = [n for n, one in enumerate(_SLOW, start=1) if item.get_closest_marker(one)]
        slowness[item.path] = max([slowness[item.path], *marks])
    items.sort(key=lambda item: -slowness[item.path])
    if "faults" in config.option.markexpr:
        return
    if config.option.faults:
        others = {item for item in items if not fault_suite.belongs(item)}
    else:
        others = {item for item in items if item.get_closest_marker("faults")}
    config.hook.pytest_deselected(items=[item for item in items if item in others])
    items[:] = [item for item in items if item not in others]


@pytest.fixture(scope="session")
def slurm(request: pytest.FixtureRequest) -> Iterator[Slurm]:
    """Slurm in the version of --slurm, also for the labs that commands start."""
    version = request.config.getoption("slurm")
    found = slurm_or_skip(version)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CLUSTERJOBS_SLURM", version)
        yield found


@pytest.fixture(scope="session", autouse=True)
def _no_site_folder_of_this_machine() -> Iterator[None]:
    """Tests do not depend on /etc/clusterjobs, nor on the variable of who runs them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(site_folders, "SYSTEM_FOLDER", pathlib.Path("/nonexistent/clusterjobs"))
        patch.delenv(site_folders.VARIABLE, raising=False)
        yield


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
def as_expected(request: pytest.FixtureRequest) -> Callable[[Case, str, int], str]:
    """`as_expected(case, printed, code)` compares both with the case, and returns its text.

    With --update-goldens it writes them into the file of the case first.
    """

    def check(case: Case, printed: str, code: int) -> str:
        text = f"$ clusterjobs {case.command}\n{printed}exit code {code}\n"
        if request.config.getoption("--update-goldens"):
            case = case.update(text)
        assert text == case.expected, case.place
        return text

    return check


@pytest.fixture
def folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    """An empty folder that is the working folder."""
    path = tmp_path / "work"
    path.mkdir()
    monkeypatch.chdir(path)
    return path


@pytest.fixture
def outside_package(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The package of tests/outside_package is installed beside clusterjobs."""
    monkeypatch.syspath_prepend(pathlib.Path(__file__).with_name("outside_package"))
    registry.forget_installed()
    yield
    registry.forget_installed()


# ------------------------------------------------------------------ what is printed at the end

_FAULTS: list[str] = []
_TALLIES: dict[str, collections.Counter[str]] = {}


@pytest.fixture(scope="session")
def fault_table() -> list[str]:
    """What was broken and what it cost: a line each, printed when all tests are done."""
    return _FAULTS


@pytest.fixture
def fault_counts(
    record_property: Callable[[str, object], None],
) -> Iterator[collections.Counter[str]]:
    """What a test adds to the table of `make faults`: the keys of fault_suite.COLUMNS.

    Counts of 0 show that the test looks for it: fault_counts["wrong_data"] += 0.
    """
    counts: collections.Counter[str] = collections.Counter()
    yield counts
    record_property("fault_counts", dict(counts))


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Iterator[collections.Counter[str]]:
    """Counts of this test: tried, intact, refused, executed, directives, directives wrong."""
    counts: collections.Counter[str] = collections.Counter()
    yield counts
    _TALLIES.setdefault(request.node.originalname, collections.Counter()).update(counts)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """One of several processes hands its part to the one that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["faults"] = _FAULTS
        session.config.workeroutput["tallies"] = {name: dict(one) for name, one in _TALLIES.items()}


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    said = getattr(node, "workeroutput", {})
    _FAULTS.extend(said.get("faults", []))
    for name, counts in said.get("tallies", {}).items():
        _TALLIES.setdefault(name, collections.Counter()).update(counts)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if _TALLIES:
        terminalreporter.section("hostile values")
        for name, counts in sorted(_TALLIES.items()):
            terminalreporter.write_line(f"{name}: {_line(counts)}")
        together = sum(_TALLIES.values(), collections.Counter())
        terminalreporter.write_line(f"together: {_line(together)}")
    if _FAULTS:
        terminalreporter.section("faults")
        for line in _FAULTS:
            terminalreporter.write_line(line)
    if terminalreporter.config.option.faults:
        terminalreporter.section("summary of the fault suite")
        reports = itertools.chain.from_iterable(terminalreporter.stats.values())
        tests = (one for one in reports if isinstance(one, pytest.TestReport))
        for line in fault_suite.Groups().add(tests).lines():
            terminalreporter.write_line(line)


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
