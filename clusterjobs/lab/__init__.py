"""A temporary, real Slurm cluster on this machine, shaped like a given cluster."""

from clusterjobs.plugins import Command

COMMAND = Command(
    "lab",
    "clusterjobs.lab.command:lab",
    "Run a temporary real Slurm cluster on this machine.",
    after="policy",
)
