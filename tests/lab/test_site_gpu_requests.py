"""Each form in which a site wants GPUs requested gives the ranks and steps all GPUs of a node."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest

from clusterjobs.lab.lab import Lab

pytestmark = pytest.mark.lab

CLUSTER = """\
kind: slurm
node_types:
  p4d: {cpus: 96, memory_mib: 1120665, gpus: 8, gpu_type: a100}
partitions:
  train: {nodes: {p4d: 2}}
default_partition: train
shared: {/fsx: lustre}
slurm_commands: /opt/slurm/bin
write_partition: false
env: {SEEN: {value: "it's $seen", reason: the site wants it}}
setup: [export SET_UP=yes]
request_gpus: %s
"""
SPEC = """\
name: a
cluster: cluster.yaml
framework: command
launcher: srun
ranks_per_node: %d
command: [bash, -c, 'echo "at $SLURM_JOB_PARTITION: $CUDA_VISIBLE_DEVICES $SEEN $SET_UP"']
before: [[srun, -N1, -n1, -c8, bash, -c, 'echo "a step: $CUDA_VISIBLE_DEVICES"']]
logs: /fsx/logs
"""
ALL = "0,1,2,3,4,5,6,7"


@pytest.mark.parametrize(
    ("form", "ranks"),
    [("gres", 1), ("gpus-per-task", 1), ("gpus-per-task", 8), ("none", 2)],
)
def test_ranks_and_steps_have_all_gpus_of_the_node(
    shared_lab: Lab,
    folder: pathlib.Path,
    clusterjobs: Callable[..., object],
    form: str,
    ranks: int,
) -> None:
    text = CLUSTER % form
    text = text.replace(", gpu_type: a100", "") if form == "none" else text
    (folder / "cluster.yaml").write_text(text)
    (folder / "spec.yaml").write_text(SPEC % ranks)
    outcome = clusterjobs("render", "spec.yaml")
    assert outcome.code == 0, outcome.err
    job_id = shared_lab.sbatch(folder / "generated/job.sh", cwd=folder)
    end = shared_lab.wait(job_id, 120)
    log = shared_lab.folder.host_path(f"/fsx/logs/{job_id}/job.log").read_text()
    assert end.exit_code == 0, log
    assert log.count(f"at train: {ALL} it's $seen yes\n") == ranks, log
    assert f"a step: {ALL}\n" in log
