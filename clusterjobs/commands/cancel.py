"""clusterjobs cancel: cancel jobs, so that they do not restart."""

from __future__ import annotations

import re

import click

from clusterjobs.errors import InputError, Problem
from clusterjobs.slurm.queue import cancel as scancel

_EXAMPLES = """\b
Examples:
  clusterjobs cancel 1234
  clusterjobs cancel 1234 1235
  clusterjobs cancel 1234_7

The last is a task of an array; the array's own id ends all its tasks.
"""
_JOB_ID = re.compile("[0-9]+(_[0-9]+)?")


@click.command(epilog=_EXAMPLES)
@click.argument("job_ids", nargs=-1, required=True, metavar="JOB_ID...")
def cancel(job_ids: tuple[str, ...]) -> None:
    """Cancel jobs. Their ranks may save first, for Slurm's KillWait; nothing is requeued.

    An id that is not in the queue is reported; the other jobs are still cancelled.
    """
    if bad := [job_id for job_id in job_ids if not _JOB_ID.fullmatch(job_id)]:
        hint = "it is a number, or 123_4 for a task of an array"
        raise InputError(Problem(f"{job_id!r} is no job id", hint=hint) for job_id in bad)
    cancelled = scancel(job_ids)
    for job_id in cancelled.job_ids:
        more = ", with all tasks of its array" if job_id in cancelled.arrays else ""
        click.echo(f"job {job_id} is cancelled{more}")
    if cancelled.unknown:
        raise InputError(
            Problem(f"no job {job_id} is in the queue") for job_id in cancelled.unknown
        )
