"""clusterjobs run: submits a spec, and follows its job or its points to the end."""

from __future__ import annotations

import os
import pathlib

import click

from clusterjobs.commands.follow import FollowedJob
from clusterjobs.commands.interrupts import postponed_interrupts
from clusterjobs.commands.job_folders import logs_folder
from clusterjobs.commands.lab_paths import on_this_machine
from clusterjobs.commands.leave_running import asks_before_it_stops
from clusterjobs.commands.log_printer import LogPrinter
from clusterjobs.commands.missing_record import no_record_note
from clusterjobs.commands.options import output_option, set_option, spec_argument
from clusterjobs.commands.pipeline import Project, load_project
from clusterjobs.commands.show import printable, show_problems
from clusterjobs.commands.unstarted import output_in_slurm
from clusterjobs.commands.write import write_outputs
from clusterjobs.errors import one_problem
from clusterjobs.slurm.submit import submit
from clusterjobs.spec.references import as_text

_EXAMPLES = """\b
Examples:
  clusterjobs run exp.yaml
  clusterjobs run exp.yaml --set nodes=4 -- --dependency=afterok:123
  clusterjobs run sweep.yaml
"""


@click.command(epilog=_EXAMPLES)
@spec_argument
@output_option
@set_option
@click.option("--force", is_flag=True, help="Overwrite files that clusterjobs did not write.")
@click.argument("sbatch_options", nargs=-1, type=click.UNPROCESSED)
def run(
    spec: pathlib.Path,
    output: pathlib.Path,
    settings: tuple[str, ...],
    force: bool,
    sbatch_options: tuple[str, ...],
) -> None:
    """Submit SPEC and follow it to its end: why it waits, its log, how it ended.

    The exit code is the job's. SBATCH_OPTIONS follow `--`. Ctrl-C asks whether to cancel the job;
    a second Ctrl-C leaves it running.
    """
    project = load_project(spec, settings)
    _run_job(spec, project, output, force, sbatch_options)


def _run_job(
    spec: pathlib.Path,
    project: Project,
    output: pathlib.Path,
    force: bool,
    sbatch_options: tuple[str, ...],
) -> None:
    logs = logs_folder(as_text(project.spec.experiment.logs.path))
    with asks_before_it_stops() as submitted:
        with postponed_interrupts(_say_that_it_waits):
            job_id = _submit(project, output, force, sbatch_options)
            job = FollowedJob(job_id, logs, LogPrinter)
            submitted.set(
                f"job {job_id}",
                job.live_jobs,
                f"to follow it: clusterjobs logs {spec} {job_id} --follow",
                f"to cancel it: clusterjobs cancel {job_id}",
            )
        end = job.follow()
        if not job.log:
            _print_output(job_id)
    if end.no_record:
        click.echo(no_record_note(job_id, end.no_record, str(spec)), err=True)
    click.echo(printable(end.said(job_id)), err=True)
    raise click.exceptions.Exit(end.exit_code)


def _submit(
    project: Project, output: pathlib.Path, force: bool, sbatch_options: tuple[str, ...]
) -> str:
    """The id of the job. Raises InputError."""
    outputs = project.outputs()
    show_problems(project.warnings)
    if added := project.fitted.notice(output):
        click.echo(added, err=True)
    write_outputs(output, outputs, force)
    job = submit(outputs["job.sh"], sbatch_options, os.environ)
    for note in job.notes:
        click.echo(printable(note), err=True)
    if job.job_id is None:
        raise one_problem("sbatch took the job, and said no id: it cannot be followed")
    click.echo(f"submitted job {job.job_id}", err=True)
    return str(job.job_id)


def _say_that_it_waits() -> None:
    click.echo("sbatch is running: stopping after it", err=True)


def _print_output(job_id: str) -> None:
    """What a job printed that ended before it had a folder, as far as Slurm says where."""
    if output := output_in_slurm(job_id, on_this_machine):
        LogPrinter(output).finish()
