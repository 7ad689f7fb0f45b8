"""Each folder in cases/imports is a case: saved texts of a cluster, and what the import prints.

`about` says which cluster it is; their facts are those of real clusters that public documentation,
issues and code show. `args` has the options where they are not `--from-files` and all files.
`pytest --update-goldens` rewrites expected.txt: read it then.
"""

from __future__ import annotations

import pathlib
import shlex
import shutil
from collections.abc import Callable

import pytest

from clusterjobs.slurmcluster.source import DescriptionSource

CASES = pathlib.Path(__file__).parents[1] / "cases" / "imports"
NAMES = sorted(path.name for path in CASES.iterdir())
_NO_INPUT = ("about", "args", "expected.txt")


def is_bad(name: str) -> bool:
    return name.startswith("bad-")


def copied(case: pathlib.Path, folder: pathlib.Path) -> str:
    """The command line of a case, whose files are copied to the working folder."""
    shutil.copytree(case, folder, dirs_exist_ok=True)
    files = sorted(path.name for path in case.iterdir() if path.name not in _NO_INPUT)
    for name in _NO_INPUT:
        (folder / name).unlink(missing_ok=True)
    args = case / "args"
    options = args.read_text().strip() if args.exists() else f"--from-files {' '.join(files)}"
    return f"clusters import {options}"


@pytest.mark.parametrize("name", NAMES)
def test_import_prints_exactly_what_is_expected(
    name: str,
    clusterjobs: Callable[..., object],
    folder: pathlib.Path,
    request: pytest.FixtureRequest,
) -> None:
    line = copied(CASES / name, folder)
    outcome = clusterjobs(*shlex.split(line))
    text = f"$ clusterjobs {line}\n{outcome.out}{outcome.err}exit code {outcome.code}\n"
    expected = CASES / name / "expected.txt"
    if request.config.getoption("--update-goldens"):
        expected.write_bytes(text.encode())
    assert text == expected.read_bytes().decode()


@pytest.mark.parametrize("name", [name for name in NAMES if not is_bad(name)])
def test_imported_description_is_read(
    name: str, clusterjobs: Callable[..., object], folder: pathlib.Path
) -> None:
    outcome = clusterjobs(*shlex.split(copied(CASES / name, folder)))
    assert outcome.code == 0
    facts = DescriptionSource(outcome.out, "cluster.yaml").facts
    assert all(partition.node_groups for partition in facts.partitions)


@pytest.mark.parametrize("name", [name for name in NAMES if is_bad(name)])
def test_every_wrong_text_has_a_hint(name: str) -> None:
    lines = (CASES / name / "expected.txt").read_text(encoding="utf-8").splitlines()
    assert lines[-1] in ("exit code 1", "exit code 2")
    assert any(line.startswith(("   hint: ", "Error: ")) for line in lines)
