"""clusterjobs submit: renders a spec and passes the script to sbatch."""

from __future__ import annotations

import os
import pathlib

import click

from clusterjobs.commands.options import output_option, set_option, spec_argument
from clusterjobs.commands.pipeline import load_project
from clusterjobs.commands.show import print_json, printable, show_problems
from clusterjobs.commands.summary import summary
from clusterjobs.commands.write import write_outputs

_EXAMPLES = """\b
Examples:
  clusterjobs submit exp.yaml
  clusterjobs submit exp.yaml --set nodes=4 -- --dependency=afterok:123
  id=$(clusterjobs submit exp.yaml --json | jq .job_id)
"""


@click.command(epilog=_EXAMPLES)
@spec_argument
@output_option
@set_option
@click.option("--force", is_flag=True, help="Overwrite files that clusterjobs did not write.")
@click.option("--json", "as_json", is_flag=True, help="Print the job id as JSON.")
@click.argument("sbatch_options", nargs=-1, type=click.UNPROCESSED)
def submit(
    spec: pathlib.Path,
    output: pathlib.Path,
    settings: tuple[str, ...],
    force: bool,
    as_json: bool,
    sbatch_options: tuple[str, ...],
) -> None:
    """Render SPEC and submit it; SBATCH_OPTIONS follow `--`.

    Variables of another job (SLURM_*, RANK ...) are not passed on.
    """
    from clusterjobs.slurm.submit import submit as hand_to_sbatch

    project = load_project(spec, settings)
    outputs = project.outputs()
    show_problems(project.warnings)
    if added := project.fitted.notice(output):
        click.echo(added, err=True)
    write_outputs(output, outputs, force)
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
