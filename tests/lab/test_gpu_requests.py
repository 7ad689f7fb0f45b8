"""Requests for a partition and for GPUs that a spec drops or writes in another form."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from clusterjobs.lab.lab import Lab

pytestmark = pytest.mark.lab

SPEC = """\
name: a
cluster: p4d-a100
framework: command
launcher: srun
ranks_per_node: 1
command: [bash, -c, 'echo "at $SLURM_JOB_PARTITION: ${CUDA_VISIBLE_DEVICES-all}"']
before: [[srun, -N1, -n1, -c8, bash, -c, 'echo "a step: ${CUDA_VISIBLE_DEVICES-all}"']]
logs: /fsx/logs
"""
DROPPED = "{partition: false, gpus-per-node: false, cpus-per-task: false}"


@pytest.mark.parametrize(
    ("keys", "seen"),
    [
        (f"sbatch: {DROPPED}", "0,1,2,3,4,5,6,7"),
        ("gpus_per_node: a100:4", "0,1,2,3"),
        ("sbatch: {gres: 'gpu:a100:8'}", "0,1,2,3,4,5,6,7"),
    ],
)
def test_slurm_gives_what_the_spec_requests(
    shared_lab: Lab,
    folder: pathlib.Path,
    clusterjobs: Callable[..., object],
    keys: str,
    seen: str,
) -> None:
    (folder / "spec.yaml").write_text(f"{SPEC}{keys}\n")
    clusterjobs("render", "spec.yaml")
    job_id = shared_lab.sbatch(folder / "generated/job.sh", cwd=folder)
    end = shared_lab.wait(job_id, 120)
    log = shared_lab.folder.host_path(f"/fsx/logs/{job_id}/job.log").read_text()
    assert end.exit_code == 0, log
    assert f"at train: {seen}" in log
    assert f"a step: {seen}\n" in log
