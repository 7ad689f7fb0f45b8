"""What a docker job does first on each node: its own words in bash, beside stand-ins."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
from test_job_script import script

CASES = {
    "squeue does not say which jobs run": {"squeue": "exit 1", "docker": ""},
    "docker does not answer: may this user call it?": {"squeue": "", "docker": "exit 1"},
    "containers that were left behind cannot be removed: clusterjobs-1": {
        "squeue": "echo 2",
        "docker": "[[ $1 != ps ]] || printf 'clusterjobs-%s\\n' 1 2",
    },
    "": {"squeue": "echo 2", "docker": "[[ $1 != ps ]] || echo clusterjobs-2"},
}


@pytest.mark.parametrize("said", CASES)
def test_each_thing_that_can_go_wrong_is_said(tmp_path: pathlib.Path, said: str) -> None:
    container = {"runtime": "docker", "image": "a/b:1"}
    text = script(software={"container": container}, launcher="torchrun")
    first = text.index("  set -o pipefail\n  end() {")
    code = text[first : text.index("' \\\n  || fail", first)]
    for name, body in CASES[said].items():
        (tmp_path / name).write_text(f"#!/bin/bash\n{body}\n")
        (tmp_path / name).chmod(0o755)
    done = subprocess.run(
        ["bash", "-c", code],
        env={
            "PATH": f"{tmp_path}:{os.environ['PATH']}",
            "SLURMD_NODENAME": "node-7",
            "SLURM_JOB_ID": "3",
        },
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == bool(said)
    assert done.stderr.strip() == (f"clusterjobs: node-7: {said}" if said else "")
