"""Paths of the cluster as paths on this machine: `/fsx` is another folder in the shell of a lab."""

from __future__ import annotations

import os
import pathlib

from clusterjobs.plugins import local_cluster


def named_here(path: pathlib.Path) -> pathlib.Path:
    """A path from the command line: itself if it exists, else the local cluster's file for it."""
    return path if path.exists() else on_this_machine(path)


def on_this_machine(path: str | pathlib.Path) -> pathlib.Path:
    """The path itself; in the shell of a local cluster, its file for this path."""
    here = local_cluster()
    if here is None:
        return pathlib.Path(path)
    return here.path_here(os.environ[here.variable], str(path))
