"""Submits a rendered script with sbatch, without variables of another job."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterjobs.errors import InputError, Problem, one_problem

# Variables that locate Slurm; they do not describe a job.
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
_JOBS_OWN = ("SLURM_", "SLURMD_", "SRUN_", "PMI_", "PMIX_", "OMPI_", "TORCHELASTIC_")
_RANKS_OWN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Submitted:
    """The output of `sbatch --parsable`; no job id after --test-only."""

    job_id: int | None
    cluster: str | None


def submit(script: str, options: Sequence[str], environment: Mapping[str, str]) -> Submitted:
    """Pass the script's text to sbatch. Raises InputError with sbatch's message.

    The text, not the file: another render may rewrite the file at the same time.
    """
    command = ["sbatch", "--parsable", *options]
    try:
        done = subprocess.run(
            command,
            input=script.encode(),
            env=clean(environment),
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        raise one_problem(
            "there is no sbatch here",
            hint="submit from the cluster's head node, or try the lab: clusterjobs lab up small",
        ) from None
    if done.returncode:
        said = done.stderr.decode(errors="replace").strip() or f"exit code {done.returncode}"
        raise InputError(Problem(f"sbatch: {line}") for line in said.splitlines())
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    job_id, _, cluster = (lines[-1] if lines else "").partition(";")
    return Submitted(int(job_id) if job_id.isdigit() else None, cluster or None)


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables of a job that this shell may be part of."""
    return {name: value for name, value in environment.items() if not _is_foreign(name)}


def _is_foreign(name: str) -> bool:
    return name not in _KEPT and (name.startswith(_JOBS_OWN) or name in _RANKS_OWN)
