"""What the script writes and makes before anything is started."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.frameworks.base import ConfigFile


class Files(NamedTuple):
    """`configs` go into the job's folder, and into the output folder for people to read.

    `folders` are made where they are missing.
    """

    configs: tuple[ConfigFile, ...]
    folders: tuple[str, ...]


def plan_files(configs: tuple[ConfigFile, ...], checkpoints: str | None) -> Files:
    """`checkpoints`: their folder, where the spec names one."""
    return Files(configs, (checkpoints,) if checkpoints else ())
