"""Open MPI's mpirun, once: Slurm starts its daemons. Source: mpirun(1), Slurm's guide to MPI."""

from clusterjobs.launchers import RUNTIMES, Launcher

_OUTSIDE = (
    "mpirun would start the ranks on the nodes, outside the containers",
    "no container; or srun with srun: {mpi: pmix} for an MPI program, horovodrun with docker for "
    "Horovod",
)
MPIRUN = Launcher(
    "mpirun",
    "one mpirun has Slurm start its daemons, and they start the ranks",
    task_per_rank=True,
    uses_mpi=True,
    calls_srun=False,
    refused_runtimes=dict.fromkeys(RUNTIMES, _OUTSIDE),
)
