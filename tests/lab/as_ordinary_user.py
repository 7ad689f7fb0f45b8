"""as_ordinary_user.py HOME USER VERSION: what a job on two nodes sees if user number USER runs it.

VERSION of Slurm is unpacked in HOME, or it is downloaded.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lab_fixtures import a100_nodes, spec_of

# Whatever is imported later would not be found: the interpreter may lie in a closed folder.
from clusterjobs.lab.lab import Lab

JOB = """#!/bin/bash
srun bash -c 'echo $(hostname) $(id -u) $CUDA_VISIBLE_DEVICES $(grep CapEff /proc/self/status) \
  unreadable: $(cat /proc/[0-9]*/environ 2>&1 >/dev/null | grep -c "Permission denied")'
"""


def main(home: Path, user: int, version: str) -> None:
    os.setgroups([])
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    os.environ.update(
        HOME=str(home), PATH="/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
    )
    os.environ.pop("XDG_CACHE_HOME", None)
    os.chdir(home)
    (home / "job.sh").write_text(JOB)
    lab = Lab(home / "lab")
    lab.up(spec_of(a100_nodes()), version=version)
    try:
        job_id = lab.sbatch("job.sh", "--nodes=2", "--gpus-per-node=2", "--output=/fsx/out")
        lab.wait(job_id)
        lines = lab.folder.host_path("/fsx/out").read_text().splitlines()
    finally:
        lab.down()
    print("\n".join(sorted(lines)))
    print("init is gone" if lab.init is None else "init is still there")


main(Path(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
