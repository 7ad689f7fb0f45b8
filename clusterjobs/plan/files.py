"""The files and folders that the script creates before it starts anything."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.frameworks.base import ConfigFile


class Files(NamedTuple):
    """`configs` are written to the job's folder, and to the output folder for people to read.

    `folders` are created if they are missing.
    """

    configs: tuple[ConfigFile, ...]
    folders: tuple[str, ...]


def plan_files(configs: tuple[ConfigFile, ...], checkpoints: str | None) -> Files:
    """The section `files`. `checkpoints`: the checkpoints' folder, if the spec names one."""
    return Files(configs, (checkpoints,) if checkpoints else ())
