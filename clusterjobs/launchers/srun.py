"""srun: Slurm starts one task per rank. Source: srun(1)."""

from clusterjobs.launchers import Launcher

SRUN = Launcher(
    "srun",
    "srun starts one task per rank",
    task_per_rank=True,
    shares_nodes=True,
    sets_node_rank=True,
    forwards_signals=True,
    refused_runtimes={
        "docker": (
            "docker with launcher: srun would start one container per rank, and the GPUs of a node "
            "communicate through memory that containers do not share",
            "launcher: torchrun, or runtime: pyxis, whose ranks share a container",
        )
    },
)
