"""clusterjobs submit: renders a spec and passes the script to sbatch."""

from __future__ import annotations

import os
import pathlib
from typing import TYPE_CHECKING

import click

from clusterjobs.commands.options import (
    all_option,
    failed_option,
    force_option,
    output_option,
    points_option,
    set_option,
    spec_argument,
    yes_option,
)
from clusterjobs.commands.pipeline import Project, load
from clusterjobs.commands.show import print_json, printable, show_problems
from clusterjobs.commands.summary import summary, sweep_summary
from clusterjobs.commands.write import write_outputs

if TYPE_CHECKING:
    from clusterjobs.commands.submit_sweep import SubmitOptions
    from clusterjobs.commands.sweep_project import SweepProject

_EXAMPLES = """\b
Examples:
  clusterjobs submit exp.yaml
  clusterjobs submit exp.yaml --set nodes=4 -- --dependency=afterok:123
  id=$(clusterjobs submit exp.yaml --json | jq .job_id)
  clusterjobs submit sweep.yaml --dry-run
  clusterjobs submit sweep.yaml --failed --points 3,7-9
  clusterjobs submit sweep.yaml --points '*lr=3e-4*' --all
"""


@click.command(epilog=_EXAMPLES)
@spec_argument
@output_option
@set_option
@force_option
@points_option
@failed_option
@all_option
@yes_option
@click.option("--dry-run", is_flag=True, help="Show what would be submitted; write nothing.")
@click.option("--json", "as_json", is_flag=True, help="Print the job ids as JSON.")
@click.argument("sbatch_options", nargs=-1, type=click.UNPROCESSED)
def submit(
    spec: pathlib.Path,
    output: pathlib.Path,
    settings: tuple[str, ...],
    force: bool,
    patterns: tuple[str, ...],
    failed: bool,
    completed: bool,
    yes: bool,
    dry_run: bool,
    as_json: bool,
    sbatch_options: tuple[str, ...],
) -> None:
    """Render SPEC and submit it; SBATCH_OPTIONS follow `--`.

    Of a sweep, points are submitted that are missing, failed, cancelled, lost or changed, and never
    one that is in the queue. Variables of another job (SLURM_*, RANK ...) are not passed on.
    """
    from clusterjobs.commands.submit_sweep import SubmitOptions  # its imports are for jobs alone

    project = load(spec, settings)
    if isinstance(project, Project):
        if patterns or failed or completed or dry_run:
            raise click.UsageError(f"--points, --failed, --all, --dry-run: {spec} has no sweep")
        _submit_one(project, output, force, as_json, sbatch_options)
        return
    options = SubmitOptions(patterns, completed, failed, yes, sbatch_options)
    if dry_run:
        _show_dry_run(project, options, as_json)
    else:
        _submit_points(project, output, force, options, as_json)


def _submit_one(
    project: Project,
    output: pathlib.Path,
    force: bool,
    as_json: bool,
    sbatch_options: tuple[str, ...],
) -> None:
    from clusterjobs.slurm.submit import submit as hand_to_sbatch

    outputs = project.outputs()
    write_project(project, output, outputs, force)
    job = hand_to_sbatch(outputs["job.sh"], sbatch_options, os.environ)
    for note in job.notes:
        click.echo(printable(note), err=True)
    if as_json:
        data = {"job_id": job.job_id, "cluster": job.cluster, "script": str(output / "job.sh")}
        print_json(data)
        return
    click.echo(summary(project.plan))
    said = (
        f"submitted job {job.job_id}"
        if job.job_id is not None
        else "sbatch took it, and said no id"
    )
    click.echo(f"\n{said}")


def write_project(
    project: Project | SweepProject, output: pathlib.Path, outputs: dict[str, str], force: bool
) -> None:
    """Write the files of a render, with the warnings of the plan on stderr. Raises InputError."""
    show_problems(project.warnings)
    if added := project.fitted.notice(output):
        click.echo(added, err=True)
    write_outputs(output, outputs, force)


# ------------------------------------------------------------------ sweeps


def _show_dry_run(project: SweepProject, options: SubmitOptions, as_json: bool) -> None:
    from clusterjobs.commands.submit_report import chosen_data, chosen_table
    from clusterjobs.commands.submit_sweep import chosen_now

    show_problems(project.warnings)
    chosen = chosen_now(project, options)
    if as_json:
        print_json(chosen_data(project, chosen))
    else:
        click.echo(chosen_table(chosen, options))


def _submit_points(
    project: SweepProject,
    output: pathlib.Path,
    force: bool,
    options: SubmitOptions,
    as_json: bool,
) -> None:
    from clusterjobs.commands import submit_report as report
    from clusterjobs.commands.submit_sweep import SweepJob, submit_sweep

    write_project(project, output, project.outputs(), force)
    if not as_json:
        click.echo(f"{sweep_summary(project)}\n")

    def submitted(job: SweepJob) -> None:
        for note in job.notes:
            click.echo(printable(note), err=True)
        if not as_json:
            click.echo(report.job_line(job))

    done = submit_sweep(project, options, _say, submitted)
    if as_json:
        print_json(report.submission_data(project, done, output))
    else:
        click.echo(report.submission_text(done))


def _say(message: str) -> None:
    click.echo(printable(message), err=True)
