"""Open MPI's mpirun, once: Slurm starts its daemons. Source: Horovod's guide to MPI."""

from __future__ import annotations

from clusterjobs.launchers.base import RUNTIMES, Launcher

_OUTSIDE = (
    "mpirun would start the ranks on the nodes, outside the containers",
    "launcher: horovodrun with runtime: docker, or no container",
)
MPIRUN = Launcher(
    "mpirun",
    "one mpirun has Slurm start its daemons, and they start the ranks",
    task_per_rank=True,
    calls_srun=False,
    refused_runtimes=dict.fromkeys(RUNTIMES, _OUTSIDE),
)
