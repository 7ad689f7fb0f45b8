"""clusterjobs submit: renders a spec and passes the script to sbatch."""

from __future__ import annotations

import pathlib
from typing import TYPE_CHECKING, Any

import click

from clusterjobs.api import load
from clusterjobs.console import print_json, show_problems, strict_option, submit_options
from clusterjobs.runs.plan_text import run_summary

if TYPE_CHECKING:
    from clusterjobs.runs.run import Run
    from clusterjobs.runs.submit.needs import Needs
    from clusterjobs.runs.submit.points import RunJob, SubmitOptions


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
    from clusterjobs.runs.submit.needs import needs_of  # its imports are for jobs alone
    from clusterjobs.runs.submit.points import SubmitOptions

    run = load(spec, set=settings)
    if strict:
        run.check_strict()
    needs = None if no_needs else needs_of(run, output, force, sbatch_options)
    if not run.sweep and (patterns or failed or completed):
        raise click.UsageError(f"--points, --failed, --all: {spec} has no sweep")
    options = SubmitOptions(patterns, completed, failed, yes, sbatch_options)
    if dry_run:
        _show_dry_run(run, output, options, as_json, needs)
    elif run.sweep:
        _submit_points(run, output, force, options, as_json, needs)
    else:
        _submit_job(run, output, force, options, as_json, needs)


def _submit_job(
    run: Run,
    output: pathlib.Path,
    force: bool,
    options: SubmitOptions,
    as_json: bool,
    needs: Needs | None,
) -> None:
    from clusterjobs.runs.submit.one_spec import submit_run

    (job,) = submit_run(run, output, force, options, needs=needs).jobs
    if as_json:
        data = {"job_id": job.job_id, "cluster": job.cluster, "script": str(output / job.script)}
        print_json({**data, **_needs_data(needs)})
        return
    _show_needs(needs)
    click.echo(f"{run_summary(run)}\n")
    is_known = job.job_id is not None
    said = f"submitted job {job.job_id}" if is_known else "submitted, but sbatch printed no job id"
    click.echo(said)


def _submit_points(
    run: Run,
    output: pathlib.Path,
    force: bool,
    options: SubmitOptions,
    as_json: bool,
    needs: Needs | None,
) -> None:
    from clusterjobs.runs.submit import report
    from clusterjobs.runs.submit.one_spec import submit_run
    from clusterjobs.runs.submit.points import matching

    def submitted(job: RunJob) -> None:
        click.echo(report.job_line(job), err=as_json)  # at once: the next one may fail

    if as_json:
        done = submit_run(run, output, force, options, submitted, needs)
        print_json({**report.submission_data(run, done, output), **_needs_data(needs)})
        return
    matching(run, options)  # a wrong pattern is the only output
    click.echo(f"{run_summary(run)}\n")
    done = submit_run(run, output, force, options, submitted, needs)
    if needs and done.jobs:
        click.echo()
        _show_needs(needs)
    click.echo(report.submission_text(done))


def _show_dry_run(
    run: Run, output: pathlib.Path, options: SubmitOptions, as_json: bool, needs: Needs | None
) -> None:
    from clusterjobs.runs.submit.points import chosen_now
    from clusterjobs.runs.submit.report import chosen_data, chosen_table

    show_problems(run.warnings)
    chosen = chosen_now(run, options) if run.sweep else None
    if needs and (chosen is None or chosen.names):
        needs.rows = needs.planned()
    if as_json:
        own = (
            chosen_data(run, chosen)
            if chosen
            else {"job_id": None, "script": str(output / "job.sh")}
        )
        print_json({**own, **_needs_data(needs)})
        return
    if needs and needs.rows:
        needs.rows.append(needs.own_row())
    _show_needs(needs)
    if chosen:
        click.echo(chosen_table(chosen, options))
    else:
        files = ", ".join(run.outputs())
        click.echo(
            f"{run_summary(run)}\n\nit would be submitted, with these files in {output}: {files}"
        )


def _show_needs(needs: Needs | None) -> None:
    from clusterjobs.runs.submit.report import needs_table

    if needs and needs.rows:
        click.echo(f"{needs_table(needs.rows)}\n")


def _needs_data(needs: Needs | None) -> dict[str, Any]:
    from clusterjobs.runs.submit.report import needs_data

    return {"needs": needs_data(needs.rows)} if needs else {}
