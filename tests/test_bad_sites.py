"""The cases in cases/site: site folders that are wrong, and what is said of each, exactly.

tests/case_files.py says how to add one.

| file of a case | meaning |
|---|---|
| `site/` | the folder that CLUSTERJOBS_SITE names |
| `config/clusterjobs/` | the user's own site folder, in place of one that has only a site.yaml |
| `etc/clusterjobs/` | the system's site folder |
| `spec.yaml` | the spec |
| `unreadable` | paths, one per line, that the user may not read |
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shutil
from collections.abc import Callable, Iterator

import pytest
from case_files import FOLDER, Case, read_cases
from test_bad_specs import as_ordinary_user, has_its_own_advice, told, unprivileged_folder

from clusterjobs.sites import folders as site_folders

CASES = read_cases("site/*.txt")


def locked(case: Case) -> list[str]:
    return case.files["unreadable"].text.splitlines() if "unreadable" in case.files else []


@contextlib.contextmanager
def _reader_of(case: Case, here: pathlib.Path) -> Iterator[None]:
    """An ordinary user who may not read what `unreadable` names."""
    if not locked(case):
        yield
        return
    paths = [here / line for line in locked(case)]
    modes = [path.stat().st_mode for path in paths]
    for path in paths:
        path.chmod(0)
    try:
        with as_ordinary_user():
            yield
    finally:
        for path, mode in zip(paths, modes, strict=True):
            path.chmod(mode)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_wrong_site_folder_is_answered_exactly_as_expected(
    case: Case,
    clusterjobs: Callable[..., object],
    as_expected: Callable[[Case, str, int], str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with unprivileged_folder() as here:
        case.write(here, left_out=["unreadable"])
        monkeypatch.chdir(here)
        _use_folders(here, monkeypatch)
        if locked(case):
            clusterjobs(*case.arguments)  # imports what the user below may not read
        with _reader_of(case, here):
            printed, code = told(clusterjobs, case.arguments, here)
        monkeypatch.chdir("/")
    assert_helpful(as_expected(case, printed, code))


def _use_folders(here: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if (here / "site").exists():
        monkeypatch.setenv(site_folders.VARIABLE, "site")
    if (here / "config").exists():
        monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    else:  # the folder of the fixture is for its owner alone
        monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "nowhere"))
        shutil.copy(FOLDER / "site.yaml", here)
    monkeypatch.setattr(site_folders, "SYSTEM_FOLDER", here / "etc" / "clusterjobs")


def assert_helpful(text: str) -> None:
    """A site folder is refused with a place and a hint, and without an internal error."""
    code = int(text.splitlines()[-1].removeprefix("exit code "))
    assert code == 1 or ("warning: " in text and code == 0)
    assert "internal error" not in text
    assert "site-packages" not in text
    problems = [
        line for line in text.splitlines()[1:] if re.match(r"(\S+:\d+:\d+|--set \S+:) ", line)
    ]
    without_place = ("there is no file", "cannot read", "is a folder", "is not a folder")
    without_place += ("names no folder", "there is no folder", "does not exist")
    without_place += ("no cluster config",)
    assert problems or any(phrase in text for phrase in without_place)
    assert "hint: " in text or has_its_own_advice(text)


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is one already")
def test_cases_name_what_they_lock() -> None:
    for case in CASES:
        for path in locked(case):
            assert any(f"{file}/".startswith(f"{path}/") for file in case.files), case.place
