"""What the shell that called sbatch may have set, and must not reach the job.

sbatch hands on the caller's whole environment. From inside another job that is another job's
ranks and another job's srun options: srun and torch would obey them.
Source: srun(1), INPUT ENVIRONMENT VARIABLES; torch.distributed and torchrun; Open MPI, PMI.
"""

from __future__ import annotations

from clusterjobs.plan.placement import Placement
from clusterjobs.spec.experiment import Experiment

_RANKS = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "ROLE_RANK",
    "MASTER_ADDR",
    "MASTER_PORT",
)

_PYTHON = ("PYTHONPATH", "PYTHONHOME")

# srun's options as variables -> the option. sbatch sets some of them itself from its own option of
# that name: where the spec gives that option, the variable is this job's own and stays.
_SRUN = {
    "SLURM_CPU_BIND": "cpu-bind",
    "SLURM_CPU_BIND_LIST": "cpu-bind",
    "SLURM_CPU_BIND_TYPE": "cpu-bind",
    "SLURM_CPU_BIND_VERBOSE": "cpu-bind",
    "SLURM_CPU_FREQ_REQ": "cpu-freq",
    "SLURM_DISTRIBUTION": "distribution",
    "SLURM_EXACT": "exact",
    "SLURM_EXPORT_ENV": "export",
    "SLURM_GPU_BIND": "gpu-bind",
    "SLURM_GPUS": "gpus",
    "SLURM_GPUS_PER_TASK": "gpus-per-task",
    "SLURM_HINT": "hint",
    "SLURM_LABELIO": "label",
    "SLURM_MEM_BIND": "mem-bind",
    "SLURM_MEM_PER_CPU": "mem-per-cpu",
    "SLURM_MEM_PER_GPU": "mem-per-gpu",
    "SLURM_MPI_TYPE": "mpi",
    "SLURM_NTASKS_PER_CORE": "ntasks-per-core",
    "SLURM_NTASKS_PER_GPU": "ntasks-per-gpu",
    "SLURM_NTASKS_PER_SOCKET": "ntasks-per-socket",
    "SLURM_OVERCOMMIT": "overcommit",
    "SLURM_OVERLAP": "overlap",
    "SLURM_PROCID": "",
    "SLURM_LOCALID": "",
    "SLURM_STEP_ID": "",
    "SLURM_STEPID": "",
    "SLURM_STEP_NODELIST": "",
    "SLURM_STEP_NUM_TASKS": "",
    "SLURM_THREADS_PER_CORE": "threads-per-core",
    "SLURM_TIMELIMIT": "time",
    "SLURM_TRES_PER_TASK": "tres-per-task",
    "SLURM_WHOLE": "whole",
    "SLURM_WORKING_DIR": "chdir",
    "SRUN_CPUS_PER_TASK": "cpus-per-task",
}

# Families of variables, by their prefix.
PREFIXES = ("TORCHELASTIC_", "OMPI_COMM_", "PMI_", "PMIX_")


def inherited_variables(experiment: Experiment, placement: Placement) -> tuple[str, ...]:
    """The variables that the job unsets before it does anything else."""
    srun = tuple(name for name, option in _SRUN.items() if option not in experiment.sbatch)
    # With GPUs Slurm sets it for this job; without, it can only be somebody else's.
    devices = () if placement.gpus_per_node else ("CUDA_VISIBLE_DEVICES",)
    return (*_RANKS, *_PYTHON, *devices, *srun)
