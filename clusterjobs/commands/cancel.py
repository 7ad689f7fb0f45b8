"""clusterjobs cancel: end jobs, so that they do not come back."""

from __future__ import annotations

import click

from clusterjobs.errors import InputError, Problem
from clusterjobs.slurm.queue import cancel as scancel

_EXAMPLES = """\b
Examples:
  clusterjobs cancel 1234
  clusterjobs cancel 1234 1235
"""


@click.command(epilog=_EXAMPLES)
@click.argument("job_ids", nargs=-1, required=True, metavar="JOB_ID...")
def cancel(job_ids: tuple[str, ...]) -> None:
    """Cancel jobs. Their ranks may save first, for Slurm's KillWait; nothing is requeued."""
    bad = [job_id for job_id in job_ids if not job_id.isdecimal()]
    if bad:
        raise InputError(Problem(f"{job_id!r} is no job id: it is a number") for job_id in bad)
    scancel(job_ids)
    for job_id in job_ids:
        click.echo(f"job {job_id} is cancelled")
