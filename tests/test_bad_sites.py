"""Each folder in cases/site is a case: a site folder that is wrong, and what is said, exactly.

| in the case | meaning |
|---|---|
| `site/` | the folder that CLUSTERJOBS_SITE names |
| `config/clusterjobs/` | the user's own site folder, in place of one that has only a site.yaml |
| `etc/clusterjobs/` | the system's site folder |
| `spec.yaml` | the spec |
| `args` | the command line after `clusterjobs`; without it, `render spec.yaml` |
| `unreadable` | paths, one per line, that the user may not read |
| `expected.txt` | what is said; `pytest --update-goldens` rewrites it: read it then |
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import shutil
from collections.abc import Callable, Iterator

import pytest
from test_bad_specs import as_ordinary_user, has_its_own_advice, unprivileged_folder

from clusterjobs import resources
from clusterjobs.commands import site_folders

CASES = pathlib.Path(__file__).parent / "cases" / "site"
NAMES = sorted(path.name for path in CASES.iterdir())


@contextlib.contextmanager
def _reader_of(case: pathlib.Path, here: pathlib.Path) -> Iterator[None]:
    """An ordinary user who may not read what `unreadable` names."""
    if not (case / "unreadable").exists():
        yield
        return
    locked = [here / line for line in (case / "unreadable").read_text().splitlines()]
    modes = [path.stat().st_mode for path in locked]
    for path in locked:
        path.chmod(0)
    try:
        with as_ordinary_user():
            yield
    finally:
        for path, mode in zip(locked, modes, strict=True):
            path.chmod(mode)


@pytest.mark.parametrize("name", NAMES)
def test_wrong_site_folder_is_answered_exactly_as_expected(
    name: str,
    clusterjobs: Callable[..., object],
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = CASES / name
    arguments = (case / "args").read_text() if (case / "args").exists() else "render spec.yaml"
    with unprivileged_folder() as here:
        left_out = shutil.ignore_patterns("expected.txt", "args", "unreadable")
        shutil.copytree(case, here, dirs_exist_ok=True, ignore=left_out, symlinks=True)
        monkeypatch.chdir(here)
        _use_folders(here, monkeypatch)
        if (case / "unreadable").exists():
            clusterjobs(*shlex.split(arguments))  # imports what the user below may not read
        with _reader_of(case, here):
            text = told(clusterjobs, arguments.strip(), here)
        monkeypatch.chdir("/")
    if request.config.getoption("--update-goldens"):
        (case / "expected.txt").write_bytes(text.encode())
    assert text == (case / "expected.txt").read_bytes().decode()


def _use_folders(here: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if (here / "site").exists():
        monkeypatch.setenv(site_folders.VARIABLE, "site")
    if (here / "config").exists():
        monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "config"))
    else:  # the folder of the fixture is for its owner alone
        monkeypatch.setenv("XDG_CONFIG_HOME", str(here / "nowhere"))
        shutil.copy(CASES.parent / "site.yaml", here)
    monkeypatch.setattr(site_folders, "SYSTEM_FOLDER", here / "etc" / "clusterjobs")


def told(clusterjobs: Callable[..., object], arguments: str, here: pathlib.Path) -> str:
    """The command line, all that was said, and the exit code, as a person would have seen it."""
    outcome = clusterjobs(*shlex.split(arguments))
    said = outcome.out + outcome.err
    for folder in (here.resolve(), here):
        said = said.replace(str(folder), "<here>")
    said = said.replace(str(resources.cluster_configs_dir()), "<cluster-configs>")
    return f"$ clusterjobs {arguments}\n{said}exit code {outcome.code}\n"


def test_every_case_is_refused_with_a_place_and_without_an_internal_error() -> None:
    for name in NAMES:
        text = (CASES / name / "expected.txt").read_text(encoding="utf-8")
        code = int(text.splitlines()[-1].removeprefix("exit code "))
        assert code == 1 or ("warning: " in text and code == 0), name
        assert "internal error" not in text, name
        assert "site-packages" not in text, name
        problems = [line for line in text.splitlines()[1:] if re.match(r"\S+:\d+:\d+ ", line)]
        without_place = ("there is no file", "cannot read", "is a folder", "is not a folder")
        without_place += ("names no folder", "there is no folder", "does not exist")
        without_place += ("no cluster config",)
        assert problems or any(phrase in text for phrase in without_place), name
        assert "hint: " in text or has_its_own_advice(text), name


@pytest.mark.skipif(os.geteuid() != 0, reason="an ordinary user is one already")
def test_cases_name_what_they_lock() -> None:
    for case in CASES.glob("*/unreadable"):
        for line in case.read_text().splitlines():
            assert (case.parent / line).exists(), case
