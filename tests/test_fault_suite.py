"""The fault suite: what runs when, and what its table says."""

from __future__ import annotations

import pathlib
import subprocess
import sys

import fault_suite
import pytest

ROOT = pathlib.Path(__file__).parents[1]


def report(test: str, phase: str, outcome: str = "passed", **counts: int) -> pytest.TestReport:
    properties = [("fault_counts", counts)] if counts else []
    where = (test, 1, test)
    return pytest.TestReport(test, where, {}, outcome, None, phase, user_properties=properties)  # type: ignore[arg-type]


def test_the_table_sums_what_the_tests_of_a_group_count() -> None:
    signals, own = "tests/render/test_signals.py::test", "tests/x/test_new.py::test"
    table = fault_suite.Groups().add(
        [
            report(f"{signals}[a]", "call"),
            report(f"{signals}[a]", "teardown", tried=20, wrong_records=0, lost_steps=0),
            report(f"{signals}[b]", "call", "failed"),
            report(f"{signals}[b]", "teardown", tried=20, wrong_records=3, as_documented=17),
            report(f"{signals}[c]", "setup", "failed"),
            report(own, "call"),
            report(own, "setup"),
            report(f"{own}_2", "setup", "skipped"),
        ]
    )
    assert table.lines()[2:] == [
        "| signals | 41 | 37 | 0 |  | 3 | 0 |",
        "| test_new | 1 | 1 |  |  |  | 1 |",
        "| together | 42 | 38 | 0 |  | 3 | 1 |",
    ]


@pytest.mark.parametrize(
    ("options", "runs"),
    [
        ([], ["test_signals.py::test_short", "test_other.py::test_short"]),
        (["-m", "not lab"], ["test_signals.py::test_short", "test_other.py::test_short"]),
        (["-m", "faults"], ["test_signals.py::test_long", "test_other.py::test_long"]),
        (
            ["--faults"],
            [
                "test_signals.py::test_short",
                "test_signals.py::test_long",
                "test_other.py::test_long",
            ],
        ),
    ],
    ids=str,
)
def test_long_forms_run_only_when_asked_for(
    tmp_path: pathlib.Path, options: list[str], runs: list[str]
) -> None:
    folder = tmp_path / "tests" / "render"
    folder.mkdir(parents=True)
    text = "import pytest\ndef test_short(): pass\n@pytest.mark.faults\ndef test_long(): pass\n"
    for name in ("test_signals.py", "test_other.py"):
        (folder / name).write_text(text)
    for name in ("conftest.py", "fault_suite.py", "slurm_versions.py", "case_files.py"):
        (tmp_path / "tests" / name).write_text((ROOT / "tests" / name).read_text())
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-v", *options],
        cwd=tmp_path,
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    ran = [line.partition(" PASSED")[0] for line in done.stdout.splitlines() if "PASSED" in line]
    assert sorted(ran) == sorted(f"tests/render/{name}" for name in runs)
