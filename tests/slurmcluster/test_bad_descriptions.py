"""Each folder in cases/descriptions is a case: a description that is wrong, and what is said.

`args` has the command line where it is not `clusters show cluster.yaml`. `pytest --update-goldens`
rewrites expected.txt: read it then.
"""

from __future__ import annotations

import pathlib
import re
import shlex
import shutil
from collections.abc import Callable

import pytest

CASES = pathlib.Path(__file__).parents[1] / "cases" / "descriptions"
NAMES = sorted(path.name for path in CASES.iterdir())


@pytest.mark.parametrize("name", NAMES)
def test_wrong_description_is_answered_exactly_as_expected(
    name: str,
    clusterjobs: Callable[..., object],
    folder: pathlib.Path,
    request: pytest.FixtureRequest,
) -> None:
    case = CASES / name
    shutil.copytree(case, folder, dirs_exist_ok=True)
    (folder / "expected.txt").unlink(missing_ok=True)
    args = case / "args"
    line = args.read_text().strip() if args.exists() else "clusters show cluster.yaml"
    outcome = clusterjobs(*shlex.split(line))
    said = (outcome.out + outcome.err).replace(str(folder.resolve()), "<here>")
    text = f"$ clusterjobs {line}\n{said}exit code {outcome.code}\n"
    if request.config.getoption("--update-goldens"):
        (case / "expected.txt").write_bytes(text.encode())
    assert text == (case / "expected.txt").read_bytes().decode()


@pytest.mark.parametrize("name", NAMES)
def test_every_case_has_a_place_and_a_hint(name: str) -> None:
    lines = (CASES / name / "expected.txt").read_text(encoding="utf-8").splitlines()
    problems = [line for line in lines if re.match(r"cluster\.yaml:\d+:\d+ ", line)]
    assert lines[-1] == "exit code 1"
    assert problems
    assert sum(line.startswith("   hint: ") for line in lines) == len(problems)
