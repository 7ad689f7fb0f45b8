"""Variables of the shell that called sbatch, which must not reach the job.

sbatch passes on the caller's whole environment. If sbatch is called inside another job, srun and
torch would use that job's ranks and options.
Source: sbatch(1), OUTPUT ENVIRONMENT VARIABLES; srun(1), INPUT ENVIRONMENT VARIABLES;
squeue(1), scancel(1), scontrol(1), ENVIRONMENT VARIABLES; torch.distributed and torchrun; Open MPI,
PMI.
"""

from __future__ import annotations

from collections.abc import Iterable

from clusterjobs.plan.directives import Directive
from clusterjobs.plan.gpu_requests import requests_gpus

_RANKS = (
    "RANK",
    "LOCAL_RANK",
    "WORLD_SIZE",
    "LOCAL_WORLD_SIZE",
    "NODE_RANK",
    "GROUP_RANK",
    "ROLE_RANK",
)
# They change how bash works. The script unsets POSIXLY_CORRECT and FUNCNEST before all else.
_BASH = ("BASH_COMPAT", "CDPATH", "EXECIGNORE", "GLOBIGNORE", "TMOUT")

# Families of variables, by their prefix.
PREFIXES = (
    *("PYTHON", "TORCHELASTIC_", "OMPI_COMM_", "PMI"),
    *("SQUEUE_", "SCANCEL_", "SCONTROL_"),  # SQUEUE_STATES=PENDING would hide running jobs
)

# Patterns of the variables that sbatch sets for every job, and of those that locate Slurm.
_SBATCH_SETS = (
    "SLURM_ARRAY_*",
    "SLURM_CLUSTER_NAME",
    "SLURM_CONF",
    "SLURM_CONF_SERVER",
    "SLURM_CPUS_ON_NODE",
    "SLURM_GPUS_ON_NODE",
    "SLURM_GTIDS",
    "SLURM_JOB_*",
    "SLURM_JOBID",
    "SLURM_NNODES",
    "SLURM_NODEID",
    "SLURM_NODELIST",
    "SLURM_NPROCS",
    "SLURM_NTASKS",
    "SLURM_RESTART_COUNT",
    "SLURM_SUBMIT_*",
    "SLURM_TASKS_PER_NODE",
    "SLURM_TASK_PID",
    "SLURM_TOPOLOGY_*",
    "SLURM_WORKING_CLUSTER",
)

# Options that sbatch passes to srun as a variable: with the option, the variable is this job's;
# without it, the variable belongs to another job.
_HANDED_ON = {
    "cpu-freq": "SLURM_CPU_FREQ_REQ",
    "cpus-per-task": "SLURM_CPUS_PER_TASK",
    "distribution": "SLURM_DISTRIBUTION",
    "gpu-bind": "SLURM_GPU_BIND",
    "gpu-freq": "SLURM_GPU_FREQ",
    "gpus-per-node": "SLURM_GPUS_PER_NODE",
    "hint": "SLURM_HINT",
    "mem": "SLURM_MEM_PER_NODE",
    "mem-bind": "SLURM_MEM_BIND",
    "network": "SLURM_NETWORK",
    "ntasks-per-core": "SLURM_NTASKS_PER_CORE",
    "ntasks-per-node": "SLURM_NTASKS_PER_NODE",
    "ntasks-per-socket": "SLURM_NTASKS_PER_SOCKET",
    "oom-kill-step": "SLURM_OOM_KILL_STEP",  # set in every job from 24.11 on
    "overcommit": "SLURM_OVERCOMMIT",
    "profile": "SLURM_PROFILE",
    "threads-per-core": "SLURM_THREADS_PER_CORE",
}


def own_slurm_variables(directives: Iterable[Directive]) -> tuple[str, ...]:
    """Patterns of the SLURM_ variables that describe this job; all others are unset."""
    # SPANK plugins of sbatch pass their options to srun and to the ranks as variables: spank(8).
    # Those of options, _SLURM_SPANK_OPTION_*, do not begin with SLURM_ and are never unset.
    handed = (_HANDED_ON[one.name] for one in directives if one.name in _HANDED_ON)
    return (*_SBATCH_SETS, *sorted(handed), "SLURM_SPANK_*")


def is_unset(name: str) -> bool:
    """Whether the job unsets it, so that a value from the calling shell never arrives."""
    return name in (*_RANKS, *_BASH) or name.startswith(PREFIXES)


def inherited_variables(directives: Iterable[Directive]) -> tuple[str, ...]:
    """The other variables that the job unsets first of all."""
    # If the job requests GPUs, Slurm sets it; else it may belong to another job.
    devices = () if requests_gpus(directives) else ("CUDA_VISIBLE_DEVICES",)
    return (*_RANKS, *_BASH, *devices)
