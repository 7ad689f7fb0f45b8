"""A rendered script handed to sbatch, without what this shell inherited from another job."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterjobs.errors import one_problem

# Where Slurm is, and not what a job of it is like.
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
_JOBS_OWN = ("SLURM_", "SLURMD_", "SRUN_", "PMI_", "PMIX_", "OMPI_", "TORCHELASTIC_")
_RANKS_OWN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Submitted:
    """What `sbatch --parsable` said."""

    job_id: int
    cluster: str | None


def submit(
    script: pathlib.Path, options: Sequence[str], environment: Mapping[str, str]
) -> Submitted:
    """Run sbatch on the script. Raises InputError with sbatch's own words."""
    command = ["sbatch", "--parsable", *options, str(script)]
    try:
        done = subprocess.run(
            command, env=clean(environment), capture_output=True, text=True, check=False
        )
    except FileNotFoundError:
        raise one_problem(
            "there is no sbatch here",
            hint="submit from the cluster's head node, or try the lab: clusterjobs lab up small",
        ) from None
    if done.returncode:
        said = done.stderr.strip() or f"exit code {done.returncode}"
        raise one_problem(f"sbatch refused the job: {said}")
    job_id, _, cluster = done.stdout.strip().partition(";")
    return Submitted(int(job_id), cluster or None)


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables of a job that this shell may be part of."""
    return {name: value for name, value in environment.items() if not _is_foreign(name)}


def _is_foreign(name: str) -> bool:
    return name not in _KEPT and (name.startswith(_JOBS_OWN) or name in _RANKS_OWN)
