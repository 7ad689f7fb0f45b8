"""The same job from different shells: what sbatch passes on of them changes nothing for a rank."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
from rendered_jobs import RECORDER, Ended, Jobs

pytestmark = pytest.mark.lab

# How sbatch is called: what runs before it, and its options.
SHELLS = {
    "usual": "sbatch",
    "export-none": "sbatch --export=NONE",
    "export-nil": "sbatch --export=NIL",
    "export-one": "sbatch --export=A=b",
    "limits": "ulimit -S -s 512; ulimit -n 64; ulimit -f 8; ulimit -t 60; sbatch",
    "options": "set -x -f -C; shopt -s nullglob nocasematch; export SHELLOPTS BASHOPTS; sbatch",
    "functions": "mkdir() { :; }; srun() { :; }; export -f mkdir srun; export CDPATH=/; sbatch",
}
DESCRIBE = 'ulimit -a > "$1.$RANK"; echo "$- $(umask)" >> "$1.$RANK"; exec python3 "${@:2}"'
OF_ONE_JOB = {
    "SLURM_JOB_ID",
    "SLURM_JOBID",
    "MASTER_PORT",
    "SLURM_TASK_PID",
    "SLURM_JOB_START_TIME",
}


def submit(jobs: Jobs, folder: pathlib.Path, name: str, how: str) -> str:
    command = [
        "bash",
        "-c",
        DESCRIBE,
        "rank",
        f"/fsx/{name}",
        str(RECORDER),
        f"/fsx/records/{name}",
    ]
    script = jobs.render(jobs.spec(name, framework="command", command=command))
    outer = folder / f"{name}.sh"
    outer.write_text(f"#!/bin/bash\n({how} --parsable {script}) 2>&1 | cat > {folder}/{name}.id\n")
    assert jobs.lab.wait(jobs.submit(outer)).exit_code == 0
    said = (folder / f"{name}.id").read_text().splitlines()
    assert said[-1].isdecimal(), said
    return said[-1]


def described(jobs: Jobs, name: str, ended: Ended) -> list[Any]:
    """What a rank sees, of each rank, but for what no two jobs share."""
    shared = jobs.lab.folder.shared("/fsx")
    limits = [(shared / f"{name}.{rank}").read_text() for rank in range(4)]
    names = [sorted({*one["environment"]} - OF_ONE_JOB) for one in ended.ranks.values()]
    slurms = [[key for key in some if key.startswith(("SLURM", "PYTHON"))] for some in names]
    met = [ended.ranks[rank]["met"] for rank in range(4)]
    return [limits, slurms, met]


def test_the_calling_shell_changes_nothing_for_a_rank(jobs: Jobs, tmp_path: pathlib.Path) -> None:
    ids = {name: submit(jobs, tmp_path, name, how) for name, how in SHELLS.items()}
    seen = {}
    for name, job_id in ids.items():
        ended = jobs.end(job_id, name)
        assert ended.exit_code == 0, (name, ended.log)
        seen[name] = described(jobs, name, ended)
    for name, one in seen.items():
        assert one == seen["usual"], name
