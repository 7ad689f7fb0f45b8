"""How ranks are started: one row a launcher. What each of them prints is in templates/launch/."""

from __future__ import annotations

from typing import NamedTuple

SSH_PROGRAMS = (
    *("ssh_settings.py", "ssh_serve.py", "ssh_node.py", "ssh_run.py", "ssh_interface.py"),
)


class Launcher(NamedTuple):
    """One task per rank, or one per node that starts the node's ranks itself.

    `starts_python`: it is given the script and runs Python on it; else it is given a command.
    `takes_srun_options`: the script calls srun itself; else the program does, in its own way.
    `over_ssh`: the program reaches the nodes by ssh.
    """

    name: str
    task_per_rank: bool
    starts_python: bool
    reason: str
    takes_srun_options: bool = True
    over_ssh: bool = False

    @property
    def programs(self) -> tuple[str, ...]:
        """The files of the room `node/` that it needs on the nodes."""
        return SSH_PROGRAMS if self.over_ssh else ()


LAUNCHERS = {
    launcher.name: launcher
    for launcher in (
        Launcher("srun", True, False, "srun starts one task per rank"),
        Launcher("torchrun", False, True, "one torchrun per node starts the node's ranks"),
        Launcher("deepspeed", False, True, "one deepspeed per node starts the node's ranks"),
        Launcher(
            "deepspeed-pdsh",
            task_per_rank=False,
            starts_python=False,
            reason="one deepspeed starts the ranks of all nodes over pdsh and ssh",
            over_ssh=True,
        ),
        Launcher(
            "horovodrun",
            task_per_rank=False,
            starts_python=False,
            reason="one horovodrun starts the ranks of all nodes over ssh",
            over_ssh=True,
        ),
        Launcher(
            "mpirun",
            task_per_rank=True,
            starts_python=False,
            reason="one mpirun has Slurm start its daemons, and they start the ranks",
            takes_srun_options=False,
        ),
        Launcher("deepy", True, False, "deepy.py has DeepSpeed start the ranks with srun", False),
    )
}
