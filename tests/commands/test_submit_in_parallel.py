"""Two submits at once into one folder: each hands on its own job."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys

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
    command = [sys.executable, "-c", "from clusterjobs.commands.main import main; main()"]
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


@pytest.mark.parametrize("output", ["", "sbatch: some words\n"])
def test_a_submission_without_an_id_is_not_a_bug_of_ours(
    clusterjobs, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, output: str
) -> None:
    sbatch = tmp_path / "bin" / "sbatch"
    sbatch.parent.mkdir()
    sbatch.write_text(f"#!/bin/bash\ncat > /dev/null\nprintf '{output}'\n")
    sbatch.chmod(0o755)
    monkeypatch.setenv("PATH", f"{sbatch.parent}:{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    spec = {"name": "x", "cluster": "small", "framework": "command", "command": "./run"}
    (tmp_path / "exp.yaml").write_text(yaml.safe_dump(spec))
    said = clusterjobs("submit", "exp.yaml", "--", "--test-only")
    assert said.code == 0
    assert "no id" in said.out
