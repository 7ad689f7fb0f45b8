"""The files and folders that the script creates before it starts anything."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.frameworks.base import ConfigFile, Program


class Files(NamedTuple):
    """`configs` are written to the job's folder, and to the output folder for people to read.

    `folders` are created if they are missing. `links`: paths below the job's folder, each a link to
    the program of its name.
    """

    configs: tuple[ConfigFile, ...]
    folders: tuple[str, ...]
    links: tuple[str, ...]


def plan_files(program: Program, checkpoints: str | None) -> Files:
    """The section `files`. `checkpoints`: the checkpoints' folder, if the spec names one."""
    return Files(program.files, (checkpoints,) if checkpoints else (), program.links)
