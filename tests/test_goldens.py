"""Each folder in cases/good is a case: a spec and every file that it renders, to the byte.

`pytest --update-goldens` rewrites the expected files; read what changes before committing it.
"""

from __future__ import annotations

import pathlib
import shutil
import subprocess
import sys
from collections.abc import Callable

import pytest

CASES = pathlib.Path(__file__).parent / "cases" / "good"
NAMES = sorted(path.name for path in CASES.iterdir())
SHELLCHECK = pathlib.Path(sys.executable).with_name("shellcheck")


def render(
    clusterjobs: Callable[..., object], case: pathlib.Path, output: pathlib.Path
) -> dict[str, bytes]:
    outcome = clusterjobs("render", case / "spec.yaml", "-o", output)
    assert outcome.code == 0, outcome.err
    return {path.name: path.read_bytes() for path in output.iterdir()}


def read_expected(folder: pathlib.Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}


def write_expected(folder: pathlib.Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for name, content in files.items():
        (folder / name).write_bytes(content)


@pytest.mark.parametrize("name", NAMES)
def test_case_renders_exactly_the_expected_files(
    name: str,
    clusterjobs: Callable[..., object],
    tmp_path: pathlib.Path,
    request: pytest.FixtureRequest,
) -> None:
    expected = CASES / name / "expected"
    files = render(clusterjobs, CASES / name, tmp_path / "out")
    if request.config.getoption("--update-goldens"):
        write_expected(expected, files)
    wanted = read_expected(expected)
    assert sorted(files) == sorted(wanted), "a file too many or too few; --update-goldens rewrites"
    for file in sorted(files, key=lambda file: file == "manifest.json"):
        text, wanted_text = files[file].decode(), wanted[file].decode()
        assert text == wanted_text, f"{name}: {file} differs; --update-goldens rewrites it"


def scripts() -> list[pathlib.Path]:
    return [CASES / name / "expected" / "job.sh" for name in NAMES]


def test_every_golden_script_is_valid_bash() -> None:
    for script in scripts():
        subprocess.run(["bash", "-n", script], check=True)


def test_shellcheck_finds_nothing_in_any_golden_script() -> None:
    found = subprocess.run(
        [SHELLCHECK, "--norc", *scripts()], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, ""), found.stdout + found.stderr


def test_rendered_examples_are_valid_bash_and_shellcheck_finds_nothing(
    clusterjobs: Callable[..., object], tmp_path: pathlib.Path
) -> None:
    rendered = []
    examples = pathlib.Path(__file__).parents[1] / "examples"
    for spec in sorted(examples.glob("*.yaml")):
        if spec.name == "site.yaml":
            continue
        output = tmp_path / spec.stem
        outcome = clusterjobs("render", spec, "-o", output)
        assert outcome.code == 0, outcome.err
        rendered.append(output / "job.sh")
    assert rendered
    for script in rendered:
        subprocess.run(["bash", "-n", script], check=True)
    found = subprocess.run(
        [SHELLCHECK, "--norc", *rendered], capture_output=True, text=True, check=False
    )
    assert (found.returncode, found.stdout) == (0, ""), found.stdout + found.stderr


def test_cases_exist() -> None:
    assert len(NAMES) >= 16
