#!/usr/bin/env python3
"""Run by `make test-slurm`: the tests of the lab and of jobs on each version of Slurm, and a table.

Arguments are for pytest. What pytest prints goes to build/slurm/VERSION.log.
"""

from __future__ import annotations

import datetime
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

from clusterjobs.lab.slurm import SUITES

ROOT = pathlib.Path(__file__).parents[1]
REPORTS = ROOT / "build" / "slurm"
PYTEST = [sys.executable, "-m", "pytest", "--maxprocesses=4", "--dist=loadfile"]
TESTS = ["-m", "lab", "tests/lab", "tests/jobs"]
TESTS += ["tests/adversarial", "--ignore=tests/jobs/test_slurm_versions.py"]

Results = dict[str, dict[str, str]]  # version -> test -> passed, failed or skipped


def main(options: list[str]) -> int:
    """0 if no test has failed on any version."""
    REPORTS.mkdir(parents=True, exist_ok=True)
    results = {version: run(version, options or ["--numprocesses=auto"]) for version in SUITES}
    lines = table(results)
    print("\n".join([f"{datetime.date.today():%d %B %Y}", "", *lines]))  # noqa: DTZ011
    return int(any("failed" in tests.values() for tests in results.values()))


def run(version: str, options: list[str]) -> dict[str, str]:
    """The result of each test, by its name."""
    log, report = REPORTS / f"{version}.log", REPORTS / f"{version}.xml"
    report.unlink(missing_ok=True)
    print(f"Slurm {version}: tail -f {log}", flush=True)
    command = [*PYTEST, f"--slurm={version}", f"--junitxml={report}", *TESTS, *options]
    with log.open("w") as out:
        subprocess.run(command, cwd=ROOT, stdout=out, stderr=subprocess.STDOUT, check=False)
    if not report.exists():
        sys.exit(f"pytest made no report: see {log}")
    cases = xml.etree.ElementTree.parse(report).iter("testcase")
    return {f"{case.get('classname')}::{case.get('name')}": result(case) for case in cases}


def result(case: xml.etree.ElementTree.Element) -> str:
    kinds = {child.tag for child in case}
    if kinds & {"failure", "error"}:
        return "failed"
    return "skipped" if "skipped" in kinds else "passed"


def table(results: Results) -> list[str]:
    """A line for each file of tests, then one for each test that has failed somewhere."""
    every = results.values()
    names = sorted({name for tests in every for name in tests})
    files = sorted({name.partition("::")[0] for name in names})
    failed = [name for name in names if any(tests.get(name) == "failed" for tests in every)]
    return [
        f"| | {' | '.join(results)} |",
        "|---" * (len(results) + 1) + "|",
        *(row(file, [counts(tests, file) for tests in every]) for file in files),
        *(row(name, [tests.get(name, "") for tests in every]) for name in failed),
    ]


def row(name: str, cells: list[str]) -> str:
    return f"| {name.removeprefix('tests.').replace('.', '/')} | {' | '.join(cells)} |"


def counts(tests: dict[str, str], file: str) -> str:
    """`12 passed, 1 skipped` of one file."""
    kinds = [kind for name, kind in tests.items() if name.startswith(f"{file}::")]
    return ", ".join(f"{kinds.count(kind)} {kind}" for kind in sorted(set(kinds)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
