"""GPT-NeoX's deepy.py, once: DeepSpeed's Slurm launcher calls srun. Source: GPT-NeoX 2.0."""

from clusterjobs.launchers import BY_SLURM, Launcher

_NO_SRUN = (
    "deepy.py calls srun, and there is none inside a container",
    "runtime: docker, whose containers reach each other by ssh",
)
DEEPY = Launcher(
    "deepy",
    "deepy.py has DeepSpeed start the ranks with srun",
    task_per_rank=True,
    calls_srun=False,
    runs_commands=False,
    refused_runtimes=dict.fromkeys(BY_SLURM, _NO_SRUN),
    ssh_inside=("docker",),
    reason_inside="deepy.py has DeepSpeed start the ranks by ssh",
)
