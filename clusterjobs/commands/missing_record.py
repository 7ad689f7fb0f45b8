"""The message of `status` and `logs` for an attempt that has no record of its end."""

from __future__ import annotations


def no_record_note(job_id: str, attempt: int, spec: str) -> str:
    """What may have happened to an attempt without a record, and how to go on."""
    return (
        f"job {job_id}: attempt {attempt} began and has no record, and Slurm has ended the job: "
        "its script was killed (kill -9, or out of memory), its node was lost, or its folder could "
        "not be written. It does not restart by itself. To start it again, from its newest "
        f"checkpoint if there is one: clusterjobs submit {spec}"
    )
