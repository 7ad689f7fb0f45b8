"""Paths of the cluster as paths on this machine: `/fsx` is another folder in the shell of a lab.

It knows the variable that `clusterjobs lab env` sets; it must not know what the paths are for.
"""

from __future__ import annotations

import os
import pathlib


def is_in_lab() -> bool:
    """Whether this shell uses a lab's Slurm, and so its jobs."""
    return bool(os.environ.get("CLUSTERJOBS_LAB"))


def named_here(path: pathlib.Path) -> pathlib.Path:
    """A path that somebody named: itself if it is there, else what a lab's jobs have there."""
    return path if path.exists() else on_this_machine(path)


def on_this_machine(path: str | pathlib.Path) -> pathlib.Path:
    """The path itself, or in the shell of a lab the lab's own file that its jobs see there."""
    if not is_in_lab():
        return pathlib.Path(path)
    from clusterjobs.commands.lab_selection import path_on_this_machine

    return path_on_this_machine(os.environ["CLUSTERJOBS_LAB"], str(path))
