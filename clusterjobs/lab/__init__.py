"""A temporary, real Slurm cluster on this machine, shaped like a given cluster."""

from collections.abc import Iterable, Iterator
from pathlib import Path

from clusterjobs.plugins import Command, LocalCluster, PlannedJob

COMMAND = Command(
    "lab",
    "clusterjobs.lab.command:lab",
    "Run a temporary real Slurm cluster on this machine.",
    after="policy",
)


def _path_here(name: str, path: str) -> Path:
    from clusterjobs.lab.selection import path_on_this_machine  # each command needs a path

    return path_on_this_machine(name, path)


def _start_ranks(jobs: Iterable[tuple[str, PlannedJob]]) -> Iterator[tuple[str, str]]:
    from clusterjobs.lab.launch_contract import run_in_lab

    return run_in_lab(jobs)


LAB = LocalCluster("lab", "CLUSTERJOBS_LAB", _path_here, _start_ranks)
