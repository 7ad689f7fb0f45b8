"""clusterjobs submit: renders a spec and passes the script to sbatch."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from clusterjobs.cli.summary import summary, sweep_summary
from clusterjobs.console.options import strict_option, submit_options
from clusterjobs.console.show import print_json, show_problems
from clusterjobs.runs.pipeline import Project, load

if TYPE_CHECKING:
    from clusterjobs.runs.submit.needs import Needs
    from clusterjobs.runs.submit.points import SubmitOptions, SweepJob
    from clusterjobs.runs.submit.report import NeedRow
    from clusterjobs.runs.sweep_project import SweepProject


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
@submit_options
@strict_option
@click.option("--no-needs", is_flag=True, help="Submit SPEC alone, without what it `needs`.")
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
    strict: bool,
    no_needs: bool,
    dry_run: bool,
    as_json: bool,
    sbatch_options: tuple[str, ...],
) -> None:
    """Render SPEC and submit it; SBATCH_OPTIONS follow `--`.

    For a sweep, it submits the points that are missing, failed, cancelled, lost or changed, but
    never one that is in the queue. Variables of another job (SLURM_*, RANK ...) are not passed on.
    """
    from clusterjobs.runs.submit.one_spec import needs_of  # its imports are for jobs alone
    from clusterjobs.runs.submit.points import SubmitOptions

    project = load(spec, settings)
    if strict:
        project.check_strict()
    needs = None if no_needs else needs_of(project, output, force, sbatch_options)
    if isinstance(project, Project):
        if patterns or failed or completed or (dry_run and not needs):
            raise click.UsageError(f"--points, --failed, --all, --dry-run: {spec} has no sweep")
        if needs and dry_run:
            _show_needs(needs.planned(), as_json)
        else:
            _submit_one(project, output, force, as_json, sbatch_options, needs)
        return
    options = SubmitOptions(patterns, completed, failed, yes, sbatch_options)
    if dry_run:
        _show_dry_run(project, options, as_json, needs)
    else:
        _submit_points(project, output, force, options, as_json, needs)


def _submit_one(
    project: Project,
    output: pathlib.Path,
    force: bool,
    as_json: bool,
    sbatch_options: tuple[str, ...],
    needs: Needs | None,
) -> None:
    from clusterjobs.runs.submit.one_spec import submit_job

    job = submit_job(project, output, force, sbatch_options, needs)
    if as_json:
        data = {"job_id": job.job_id, "cluster": job.cluster, "script": str(output / "job.sh")}
        print_json({**data, **_needs_data(needs)})
        return
    if needs:
        _show_needs(needs.rows)
    click.echo(summary(project.plan))
    said = (
        f"submitted job {job.job_id}"
        if job.job_id is not None
        else "submitted, but sbatch printed no job id"
    )
    click.echo(f"\n{said}")


# ------------------------------------------------------------------ needs


def _show_needs(rows: Sequence[NeedRow], as_json: bool = False) -> None:
    from clusterjobs.runs.submit.report import needs_data, needs_table

    if as_json:
        print_json({"needs": needs_data(rows)})
    elif rows:
        click.echo(f"{needs_table(rows)}\n")


def _needs_data(needs: Needs | None) -> dict[str, Any]:
    if needs is None:
        return {}
    from clusterjobs.runs.submit.report import needs_data

    return {"needs": needs_data(needs.rows)}


# ------------------------------------------------------------------ sweeps


def _show_dry_run(
    project: SweepProject, options: SubmitOptions, as_json: bool, needs: Needs | None
) -> None:
    from clusterjobs.runs.submit.points import chosen_now
    from clusterjobs.runs.submit.report import chosen_data, chosen_table

    show_problems(project.warnings)
    chosen = chosen_now(project, options)
    if needs and chosen.names:
        needs.rows = needs.planned()
    if as_json:
        print_json({**chosen_data(project, chosen), **_needs_data(needs)})
    else:
        _show_needs(needs.rows if needs else [])
        click.echo(chosen_table(chosen, options))


def _submit_points(
    project: SweepProject,
    output: pathlib.Path,
    force: bool,
    options: SubmitOptions,
    as_json: bool,
    needs: Needs | None,
) -> None:
    from clusterjobs.runs.submit import report
    from clusterjobs.runs.submit.one_spec import submit_points
    from clusterjobs.runs.submit.points import matching

    def submitted(job: SweepJob) -> None:
        click.echo(report.job_line(job), err=as_json)  # at once: the next one may fail

    if as_json:
        done = submit_points(project, output, force, options, submitted, needs)
        print_json({**report.submission_data(project, done, output), **_needs_data(needs)})
        return
    matching(project, options)  # a wrong pattern is the only output
    click.echo(f"{sweep_summary(project)}\n")
    done = submit_points(project, output, force, options, submitted, needs)
    if needs and done.jobs:
        click.echo()
        _show_needs(needs.rows)
    click.echo(report.submission_text(done))
