"""clusterjobs logs: prints the log of a job of a spec, with all its attempts."""

from __future__ import annotations

import contextlib
import pathlib
import time

import click

from clusterjobs.commands.job_folders import spec_jobs
from clusterjobs.commands.missing_record import no_record_note
from clusterjobs.commands.options import spec_argument
from clusterjobs.commands.show import printable
from clusterjobs.errors import one_problem
from clusterjobs.growing_file import GrowingFile
from clusterjobs.jobs.records import read_folder, unrecorded_attempts
from clusterjobs.slurm.queue import queued_jobs

_EXAMPLES = """\b
Examples:
  clusterjobs logs exp.yaml
  clusterjobs logs exp.yaml 1234 --follow
"""
_SECONDS = 2.0  # between two reads: the file system is shared with others


@click.command(epilog=_EXAMPLES)
@spec_argument
@click.argument("job_id", required=False)
@click.option("-f", "--follow", is_flag=True, help="Keep printing until the job has ended.")
def logs(spec: pathlib.Path, job_id: str | None, follow: bool) -> None:
    """Print the log of a job of SPEC; without JOB_ID, of the newest one."""
    queued = queued_jobs() or {}
    found = spec_jobs(spec, queued)
    wanted = found.chosen(job_id)
    unstarted = found.unstarted.get(wanted)
    if unstarted and not unstarted.output:
        raise one_problem(unstarted.note(wanted), hint=f"scontrol show job {wanted}")
    if unstarted:
        click.echo(printable(unstarted.note(wanted)), err=True)
    output = unstarted and unstarted.output
    log = GrowingFile(output or found.folders[wanted] / "job.log")
    if wanted in queued and not log.path.exists():
        said = (
            f"job {wanted} is {queued[wanted].state} ({queued[wanted].reason}): it has no log yet"
        )
        if not follow:
            raise one_problem(said, hint=f"wait for it: clusterjobs logs {spec} {wanted} --follow")
        click.echo(said, err=True)
    _print(log)
    with contextlib.suppress(BrokenPipeError):
        while follow and wanted in (queued_jobs() or {}):
            time.sleep(_SECONDS)
            _print(log)
    _print(log)
    _note_missing_record(spec, wanted, found.folders[wanted])


def _print(log: GrowingFile) -> None:
    """Another user's text without the characters that could change the terminal."""
    try:
        for text in log.new_parts():
            click.echo(printable(text, kept="\n\r\t") if log.is_foreign() else text, nl=False)
    except BrokenPipeError:
        raise
    except OSError as error:
        raise one_problem(f"cannot read {log.path}: {error.strerror}") from None


def _note_missing_record(spec: pathlib.Path, job_id: str, folder: pathlib.Path) -> None:
    queued = queued_jobs()
    if queued is not None and job_id not in queued:
        for one in unrecorded_attempts(folder, read_folder(folder).attempts):
            click.echo(no_record_note(job_id, one.number, str(spec)), err=True)
