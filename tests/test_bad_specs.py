"""Each folder in cases/bad is a case: a spec that is wrong, and what is said about it, exactly.

`args` has the rest of the command line where it is not `spec.yaml`; where a file `no-site` lies,
the user has no site.yaml. `pytest --update-goldens` rewrites expected.txt: read it then.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
import re
import shlex
import shutil
import tempfile
from collections.abc import Callable, Iterator

import pytest

from clusterjobs import resources

CASES = pathlib.Path(__file__).parent / "cases" / "bad"
NAMES = sorted(path.name for path in CASES.iterdir())
MINIMAL = "name: a\ncluster: small\nframework: command\ncommand: ./run\n"


def told(
    clusterjobs: Callable[..., object], arguments: list[str], folder: pathlib.Path
) -> tuple[str, int]:
    """The command line, all that was said, and the exit code, as a person would have seen it."""
    outcome = clusterjobs("render", *arguments)
    said = outcome.out + outcome.err
    said = said.replace(str(folder.resolve()), "<here>")
    said = said.replace(str(resources.cluster_configs_dir()), "<cluster-configs>")
    line = shlex.join(["clusterjobs", "render", *arguments])
    return f"$ {line}\n{said}exit code {outcome.code}\n", outcome.code


@pytest.mark.parametrize("name", NAMES)
def test_bad_spec_is_answered_exactly_as_expected(
    name: str,
    clusterjobs: Callable[..., object],
    folder: pathlib.Path,
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    case = CASES / name
    shutil.copytree(case, folder, dirs_exist_ok=True)
    (folder / "expected.txt").unlink(missing_ok=True)
    if (case / "no-site").exists():
        monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "nowhere"))
    arguments = (case / "args").read_text() if (case / "args").exists() else "spec.yaml"
    text, _ = told(clusterjobs, shlex.split(arguments), folder)
    if request.config.getoption("--update-goldens"):
        (case / "expected.txt").write_bytes(text.encode())
    assert text == (case / "expected.txt").read_bytes().decode()


def has_its_own_advice(text: str) -> bool:
    """Messages that say what would be right, so that a hint would only repeat them."""
    return any(
        phrase in text
        for phrase in ("only letters, digits", "not a choice:", "a line of bash", "in capitals")
    )


def test_every_case_is_refused_with_a_place_and_without_a_traceback() -> None:
    for name in NAMES:
        text = (CASES / name / "expected.txt").read_text(encoding="utf-8")
        code = int(text.splitlines()[-1].removeprefix("exit code "))
        warned_only = "warning: " in text and code == 0
        assert warned_only or code in (1, 2), name
        assert "Traceback" not in text, name
        assert "site-packages" not in text, name
        problems = [line for line in text.splitlines()[1:] if re.match(r"\S+:\d+:\d+ ", line)]
        without_place = ("there is no file", "is a folder", "cannot read", "by clusterjobs")
        assert problems or any(phrase in text for phrase in (*without_place, "Usage:")), name
        assert problems == [] or "hint: " in text or has_its_own_advice(text), name


def test_nothing_is_written_for_a_bad_spec(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    shutil.copy(CASES / "batch-does-not-divide" / "spec.yaml", folder)
    assert clusterjobs("render", "spec.yaml").code == 1
    assert [path.name for path in folder.iterdir()] == ["spec.yaml"]


def test_cases_exist() -> None:
    assert len(NAMES) >= 60


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


# ------------------------------------------------------------------ what no folder can hold


def test_a_file_of_ten_megabytes_is_refused_at_once(
    clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    (folder / "spec.yaml").write_text(MINIMAL + "# padding\n" * 1_000_000)
    text, code = told(clusterjobs, ["spec.yaml"], folder)
    assert code == 1
    assert "spec.yaml:1:1 the file has " in text
    assert "more than 1,048,576" in text


def test_an_unreadable_file_is_named(clusterjobs: Callable[..., object]) -> None:
    with unprivileged_folder() as folder:
        spec = folder / "spec.yaml"
        spec.write_text(MINIMAL)
        told(clusterjobs, [str(spec)], folder)  # imports what the user below may not read
        spec.chmod(0)
        with as_ordinary_user():
            text, code = told(clusterjobs, [str(spec)], folder)
    assert code == 1
    assert "cannot read <here>/spec.yaml: Permission denied" in text
