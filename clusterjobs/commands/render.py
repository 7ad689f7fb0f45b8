"""clusterjobs render: write the files of a job."""

from __future__ import annotations

import pathlib
import shlex

import click

from clusterjobs.commands.options import output_option, set_option, spec_argument
from clusterjobs.commands.pipeline import load_project
from clusterjobs.commands.show import printable, show_problems
from clusterjobs.commands.summary import summary
from clusterjobs.commands.write import changed_files, recorded_spec, write_outputs

_EXAMPLES = """\b
Examples:
  clusterjobs render exp.yaml
  clusterjobs render exp.yaml -o /fsx/jobs/exp --set nodes=4
  clusterjobs render exp.yaml --check        (in CI: exit 1 if the files are not current)
"""


@click.command(epilog=_EXAMPLES)
@spec_argument
@output_option
@set_option
@click.option("--check", is_flag=True, help="Write nothing; exit 1 if the files are not current.")
@click.option("--force", is_flag=True, help="Overwrite files that clusterjobs did not write.")
def render(
    spec: pathlib.Path, output: pathlib.Path, settings: tuple[str, ...], check: bool, force: bool
) -> int:
    """Write the job script and the config files of SPEC, and print a summary."""
    project = load_project(spec, settings)
    outputs = project.outputs()
    show_problems([*project.warnings, *project.notes])
    if check:
        return _check(output, outputs)
    previous = recorded_spec(output)
    changes = write_outputs(output, outputs, force)
    click.echo(summary(project.plan))
    click.echo()
    for name in outputs:
        click.echo(f"  {output / name}{_note(changes.get(name, 'unchanged'))}")
    for name in sorted(set(changes) - set(outputs)):
        click.echo(f"  {output / name} (removed: no longer needed)")
    if previous != recorded_spec(output) and previous:
        click.echo(f"\n{output} had the files of {printable(previous)}; -o selects another folder")
    if added := project.fitted.notice(output):
        click.echo(f"\n{added}")
    click.echo(f"\nsubmit it with: sbatch {shlex.quote(str(output / 'job.sh'))}")
    return 0


def _check(output: pathlib.Path, outputs: dict[str, str]) -> int:
    changes = changed_files(output, outputs)
    for name, change in changes.items():
        click.echo(f"{output / name}: {'missing' if change == 'new' else change}", err=True)
    if not changes:
        click.echo(f"{output}: current")
    return 1 if changes else 0


def _note(change: str) -> str:
    return "" if change == "new" else f" ({change})"
