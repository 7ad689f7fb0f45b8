"""Submits: two at once into one folder hand on their own jobs; what sbatch says is shown."""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable

import pytest
import yaml

RECORDER = """#!/bin/bash
cat > "$RECORDS/$$.sh"
echo $$
"""


def test_submits_in_parallel_hand_on_their_own_scripts(
    tmp_path: pathlib.Path, site_home: pathlib.Path
) -> None:
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(RECORDER)
    sbatch.chmod(0o755)
    records = tmp_path / "records"
    records.mkdir()
    spec = {"name": "x", "cluster": "small", "framework": "command", "command": "./run"}
    (tmp_path / "exp.yaml").write_text(yaml.safe_dump(spec))
    environment = {
        **os.environ,
        "PATH": f"{sbatch.parent}:{os.environ['PATH']}",
        "RECORDS": str(records),
        "XDG_CONFIG_HOME": str(site_home),
    }
    command = [sys.executable, "-c", "from clusterjobs.cli.main import main; main()"]
    names = [f"race-{number}" for number in range(8)]
    running = [
        subprocess.Popen(
            [*command, "submit", "exp.yaml", "--set", f"name={name}"],
            cwd=tmp_path,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
        )
        for name in names
    ]
    said = [process.communicate(timeout=120)[1] for process in running]
    assert [process.returncode for process in running] == [0] * len(names), said
    submitted = [file.read_text() for file in records.iterdir()]
    found = sorted(text.split("--job-name=")[1].split("\n")[0] for text in submitted)
    assert found == sorted(names)


@pytest.fixture
def sbatch(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """`sbatch(body)`: a stand-in for sbatch, and a spec in the working folder."""
    file = tmp_path / "bin" / "sbatch"
    file.parent.mkdir()
    monkeypatch.setenv("PATH", f"{file.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    spec = {"name": "x", "cluster": "small", "framework": "command", "command": "./run"}
    (tmp_path / "exp.yaml").write_text(yaml.safe_dump(spec))

    def write(body: str) -> None:
        file.write_text(f"#!/bin/bash\ncat > /dev/null\n{body}\n")
        file.chmod(0o755)

    return write


@pytest.mark.parametrize("output", ["", "sbatch: some words\n"])
def test_a_submission_without_an_id_is_not_a_bug_of_ours(clusterjobs, sbatch, output: str) -> None:
    sbatch(f"printf '{output}'")
    said = clusterjobs("submit", "exp.yaml", "--", "--test-only")
    assert said.code == 0
    assert "no job id" in said.out


def test_several_lines_of_sbatch_are_one_problem(clusterjobs, sbatch, monkeypatch) -> None:
    sbatch(
        "echo 'sbatch: error: invalid partition specified: x' >&2\n"
        "echo 'sbatch: error: Batch job submission failed: Invalid partition name' >&2; exit 1"
    )
    said = clusterjobs("submit", "exp.yaml")
    assert said.code == 1
    assert said.err.splitlines()[-2:] == [
        "sbatch refused the job: invalid partition specified: x; "
        "Batch job submission failed: Invalid partition name",
        "   hint: this Slurm has no such queue: sinfo lists them; is it the cluster that the spec "
        "names?",
    ]
    monkeypatch.setenv("CLUSTERJOBS_LAB", "mine")
    assert "hint: this shell uses the lab 'mine'" in clusterjobs("submit", "exp.yaml").err
    sbatch("exit 9")
    assert "sbatch refused the job: exit code 9\n" in clusterjobs("submit", "exp.yaml").err


def test_what_sbatch_warns_of_is_shown(clusterjobs, sbatch) -> None:
    sbatch("echo 'sbatch: lua: this account is \x1b[2Jover its limit' >&2; echo 7")
    said = clusterjobs("submit", "exp.yaml", "--json")
    assert (said.code, json.loads(said.out)["job_id"]) == (0, 7)
    assert "sbatch: lua: this account is ?[2Jover its limit\n" in said.err
