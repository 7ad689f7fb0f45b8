"""The cases in cases/bad: specs that are wrong, and what is said about each, exactly.

tests/case_files.py says how to add one. With a file `no-site`, the user has no site.yaml.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import tempfile
from collections.abc import Callable, Iterator

import pytest
from case_files import Case, read_cases

from clusterjobs import resources

CASES = read_cases("bad/*.txt")
MINIMAL = "name: a\ncluster: small\nframework: command\ncommand: ./run\n"


def told(
    clusterjobs: Callable[..., object], arguments: list[str], folder: pathlib.Path
) -> tuple[str, int]:
    """All that a command line printed, the same in every folder, and the exit code."""
    outcome = clusterjobs(*arguments)
    said = outcome.out + outcome.err
    for path in (folder.resolve(), folder):
        said = said.replace(str(path), "<here>")
    return said.replace(str(resources.cluster_configs_dir()), "<cluster-configs>"), outcome.code


@pytest.mark.parametrize("case", CASES, ids=str)
def test_bad_spec_is_answered_exactly_as_expected(
    case: Case,
    clusterjobs: Callable[..., object],
    folder: pathlib.Path,
    as_expected: Callable[[Case, str, int], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case.write(folder)
    if "no-site" in case.files:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "nowhere"))
    assert_helpful(as_expected(case, *told(clusterjobs, case.arguments, folder)))


def has_its_own_advice(text: str) -> bool:
    """Messages that say what would be right, so that a hint would only repeat them."""
    return any(
        phrase in text
        for phrase in ("only letters, digits", "not a choice:", "a line of bash", "in capitals")
    )


def assert_helpful(text: str) -> None:
    """A spec is refused with a place and advice, and without a traceback."""
    code = int(text.splitlines()[-1].removeprefix("exit code "))
    assert code in (1, 2) or ("warning: " in text and code == 0)
    assert "Traceback" not in text
    assert "site-packages" not in text
    problems = [line for line in text.splitlines()[1:] if re.match(r"(\S+:\d+:\d+|--set) ", line)]
    without_place = ("there is no file", "is a folder", "cannot read", "by clusterjobs")
    assert problems or any(phrase in text for phrase in (*without_place, "Usage:"))
    assert problems == [] or "hint: " in text or has_its_own_advice(text)


def test_nothing_is_written_for_a_bad_spec(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    (case,) = (case for case in CASES if case.name == "batch-does-not-divide")
    case.write(folder)
    assert clusterjobs(*case.arguments).code == 1
    assert [path.name for path in folder.iterdir()] == ["spec.yaml"]


def test_cases_exist() -> None:
    assert len(CASES) >= 560


@contextlib.contextmanager
def unprivileged_folder() -> Iterator[pathlib.Path]:
    """A folder that every user may enter; pytest's own are for their owner alone."""
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        yield folder


@contextlib.contextmanager
def as_ordinary_user() -> Iterator[None]:
    """Root reads everything, so root becomes somebody else for a moment."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


# ------------------------------------------------------------------ what no file of cases can hold


def test_a_file_of_ten_megabytes_is_refused_at_once(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "spec.yaml").write_text(MINIMAL + "# padding\n" * 1_000_000)
    text, code = told(clusterjobs, ["render", "spec.yaml"], folder)
    assert code == 1
    assert "spec.yaml:1:1 the file has " in text
    assert "more than 1,048,576" in text


def test_an_unreadable_file_is_named(clusterjobs: Callable[..., object]) -> None:
    with unprivileged_folder() as folder:
        spec = folder / "spec.yaml"
        spec.write_text(MINIMAL)
        told(clusterjobs, ["render", str(spec)], folder)  # imports what the user below may not read
        spec.chmod(0)
        with as_ordinary_user():
            text, code = told(clusterjobs, ["render", str(spec)], folder)
    assert code == 1
    assert "cannot read <here>/spec.yaml: Permission denied" in text
