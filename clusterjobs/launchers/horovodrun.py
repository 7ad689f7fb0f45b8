"""horovodrun, once: it reaches the other nodes by ssh. Source: Horovod 0.28.1, runner/launch.py."""

from clusterjobs.launchers import BY_SLURM, SSH_PROGRAMS, Launcher

_OUTSIDE = (
    "horovodrun would start the ranks on the nodes, outside the containers",
    "runtime: docker, whose containers reach each other by ssh",
)
HOROVODRUN = Launcher(
    "horovodrun",
    "one horovodrun starts the ranks of all nodes over ssh",
    over_ssh=True,
    runs_commands=False,
    takes_first_gpus=True,
    refused_runtimes=dict.fromkeys(BY_SLURM, _OUTSIDE),
    ssh_inside=("docker",),
    reason_inside="one horovodrun starts the ranks of all nodes over ssh",
    programs=SSH_PROGRAMS,
)
