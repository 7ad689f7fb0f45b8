"""Paths of the cluster as paths on this machine: `/fsx` is another folder in the shell of a lab.

It knows the variable that `clusterjobs lab env` sets; it must not know what the paths are for.
"""

from __future__ import annotations

import os
import pathlib


def is_in_lab() -> bool:
    """Whether this shell uses the Slurm of a lab."""
    return bool(os.environ.get("CLUSTERJOBS_LAB"))


def named_here(path: pathlib.Path) -> pathlib.Path:
    """A path from the command line: itself if it exists, else the lab's folder for it."""
    return path if path.exists() else on_this_machine(path)


def on_this_machine(path: str | pathlib.Path) -> pathlib.Path:
    """The path itself; in the shell of a lab, the lab's file for this path."""
    if not is_in_lab():
        return pathlib.Path(path)
    from clusterjobs.lab.selection import path_on_this_machine

    return path_on_this_machine(os.environ["CLUSTERJOBS_LAB"], str(path))
