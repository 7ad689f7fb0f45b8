"""Submits a rendered script with sbatch, without variables of another job."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from clusterjobs.errors import InputError, one_problem

# Variables that locate Slurm; they do not describe a job.
_KEPT = ("SLURM_CONF", "SLURM_CONF_SERVER", "SLURM_CLUSTERS", "SLURM_JWT")
_JOBS_OWN = ("SLURM_", "SLURMD_", "SRUN_", "PMI_", "PMIX_", "OMPI_", "TORCHELASTIC_")
_RANKS_OWN = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")


@dataclass(frozen=True)
class Submitted:
    """The output of `sbatch --parsable`; no job id after --test-only.

    `notes`: the lines of its stderr.
    """

    job_id: int | None
    cluster: str | None
    notes: tuple[str, ...] = ()


def submit(
    script: str,
    options: Sequence[str],
    environment: Mapping[str, str],
    inherited: Sequence[int] = (),
) -> Submitted:
    """Pass the script's text to sbatch. Raises InputError with sbatch's message.

    The text, not the file: another render may rewrite the file at the same time. `inherited`:
    descriptors that sbatch keeps open, also if this process is killed. Ctrl-C reaches this process
    only: sbatch is not ended before it has said the job's id.
    """
    command = ["sbatch", "--parsable", *options]
    try:
        done = subprocess.run(
            command,
            input=script.encode(),
            env=clean(environment),
            capture_output=True,
            check=False,
            pass_fds=inherited,
            start_new_session=True,
        )
    except FileNotFoundError:
        raise one_problem(
            "there is no sbatch here",
            hint="submit from the cluster's head node, or try the lab: clusterjobs lab up small",
        ) from None
    said = done.stderr.decode(errors="replace")
    if done.returncode:
        raise _refusal(said, done.returncode)
    lines = done.stdout.decode(errors="replace").strip().splitlines()
    job_id, _, cluster = (lines[-1] if lines else "").partition(";")
    notes = tuple(said.strip().splitlines())
    return Submitted(int(job_id) if job_id.isdigit() else None, cluster or None, notes)


def _refusal(said: str, exit_code: int) -> InputError:
    """One problem with all that sbatch said: several lines are still one refused job."""
    lines = [line.removeprefix("sbatch: ").removeprefix("error: ") for line in said.splitlines()]
    text = "; ".join(line.strip() for line in lines if line.strip())
    return one_problem(f"sbatch refused the job: {text or f'exit code {exit_code}'}")


def clean(environment: Mapping[str, str]) -> dict[str, str]:
    """The environment without the variables of a job that this shell may be part of."""
    return {name: value for name, value in environment.items() if not _is_foreign(name)}


def _is_foreign(name: str) -> bool:
    return name not in _KEPT and (name.startswith(_JOBS_OWN) or name in _RANKS_OWN)
