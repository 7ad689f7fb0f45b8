"""DeepSpeed's launcher: started by Slurm on each node, or once, to reach the nodes over pdsh.

Source: DeepSpeed 0.19.8, launcher/runner.py and launcher/launch.py.
"""

from clusterjobs.launchers import RUNTIMES, SSH_PROGRAMS, Launcher

_PROGRAM_OPTIONS = {
    "num_nodes": "nodes",
    "num_gpus": "gpus_per_node",
    **dict.fromkeys(("node_rank", "master_addr", "master_port", "hostfile", "no_ssh"), ""),
    **dict.fromkeys(("launcher_args", "ssh_port", "bind_cores_to_rank"), ""),
}

DEEPSPEED = Launcher(
    "deepspeed",
    "one deepspeed per node starts the node's ranks",
    starts_python=True,
    no_python_option="--no_python",
    module_option="--module",
    sets_node_rank=True,
    takes_first_gpus=True,
    program_options=_PROGRAM_OPTIONS,
)

_OUTSIDE = (
    "deepspeed-pdsh would start the ranks on the nodes, outside the containers",
    "launcher: deepspeed, which Slurm starts in each container",
)
DEEPSPEED_PDSH = Launcher(
    "deepspeed-pdsh",
    "one deepspeed starts the ranks of all nodes over pdsh and ssh",
    over_ssh=True,
    runs_commands=False,
    takes_first_gpus=True,
    refused_runtimes=dict.fromkeys(RUNTIMES, _OUTSIDE),
    programs=SSH_PROGRAMS,
    program_options=_PROGRAM_OPTIONS,
)
