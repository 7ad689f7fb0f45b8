"""as_ordinary_user.py HOME: become nobody, run a job on two nodes, print what it saw."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from lab_fixtures import a100_nodes, spec_of

# Whatever is imported later would not be found: the interpreter may lie in a closed folder.
from clusterjobs.lab.lab import running_lab

JOB = """#!/bin/bash
srun bash -c 'echo $(hostname) $(id -u) $CUDA_VISIBLE_DEVICES $(grep CapEff /proc/self/status)'
"""


def main(home: Path) -> None:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    os.environ.update(
        HOME=str(home), PATH="/usr/local/bin:/usr/bin:/bin:/usr/local/games:/usr/games"
    )
    os.environ.pop("XDG_CACHE_HOME", None)
    os.chdir(home)
    (home / "job.sh").write_text(JOB)
    with running_lab(spec_of(a100_nodes()), home / "lab") as lab:
        job_id = lab.sbatch("job.sh", "--nodes=2", "--gpus-per-node=2", "--output=/fsx/out")
        lab.wait(job_id)
        lines = lab.folder.host_path("/fsx/out").read_text().splitlines()
    print("\n".join(sorted(lines)))
    print("init is gone" if lab.init is None else "init is still there")


main(Path(sys.argv[1]))
