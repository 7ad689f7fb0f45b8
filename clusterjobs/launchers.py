"""How ranks are started: one row a launcher. What each of them prints is in templates/launch/."""

from __future__ import annotations

from typing import NamedTuple


class Launcher(NamedTuple):
    """One task per rank, or one per node that starts the node's ranks itself.

    `starts_python`: it is given the script and runs Python on it; else it is given a command.
    `takes_srun_options`: the script calls srun itself; else the program does, in its own way.
    """

    name: str
    task_per_rank: bool
    starts_python: bool
    reason: str
    takes_srun_options: bool = True


LAUNCHERS = {
    launcher.name: launcher
    for launcher in (
        Launcher("srun", True, False, "srun starts one task per rank"),
        Launcher("torchrun", False, True, "one torchrun per node starts the node's ranks"),
        Launcher("deepspeed", False, True, "one deepspeed per node starts the node's ranks"),
        Launcher("deepy", True, False, "deepy.py has DeepSpeed start the ranks with srun", False),
    )
}
