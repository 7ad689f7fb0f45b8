"""clusterjobs calibrate: measures a spec's layout in a short job, and stores what it found."""

from __future__ import annotations

import contextlib
import pathlib
import sys
from typing import TYPE_CHECKING

import click

from clusterjobs.commands.options import force_option, set_option, spec_argument
from clusterjobs.commands.show import print_json

if TYPE_CHECKING:
    from clusterjobs.commands.foresight.measured import Measurement

_EXAMPLES = """\b
Examples:
  clusterjobs calibrate exp.yaml                 (one node, 20 steps)
  clusterjobs calibrate exp.yaml --steps 50 --nodes 2
  clusterjobs calibrate exp.yaml --render        (only the files; submit them yourself)
  clusterjobs calibrate exp.yaml --log /fsx/logs/exp/1234/job.log
"""


@click.command(epilog=_EXAMPLES)
@spec_argument
@set_option
@click.option(
    "--steps", type=click.IntRange(5, 1000), default=20, show_default=True, help="Steps to measure."
)
@click.option("--nodes", type=click.IntRange(1, 1000), help="Nodes; by default as few as it needs.")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=pathlib.Path, file_okay=False),
    default=pathlib.Path("generated-calibration"),
    show_default=True,
    help="The folder for the files of the short job.",
)
@force_option
@click.option("--render", is_flag=True, help="Write the files of the short job; do not submit it.")
@click.option(
    "--log",
    type=click.Path(path_type=pathlib.Path, dir_okay=False),
    metavar="FILE",
    help="Read this log of the job in SPEC instead of running one.",
)
@click.option("--json", "as_json", is_flag=True, help="Print the measurement as JSON.")
def calibrate(
    spec: pathlib.Path,
    settings: tuple[str, ...],
    steps: int,
    nodes: int | None,
    output: pathlib.Path,
    force: bool,
    render: bool,
    log: pathlib.Path | None,
    as_json: bool,
) -> int:
    """Run a few steps of SPEC on as few nodes as it needs, and store the measured step time and
    memory.

    `plan` and `advise` then use them for this model, layout, GPU and framework. The short job has
    the spec's layers and micro batch, a name and checkpoints of its own, and a time limit of 20
    minutes.
    """
    from clusterjobs.commands.calibrate import measure

    if log and (render or nodes):
        raise click.UsageError("--log reads a job that has run: remove --render and --nodes")
    if log:
        found = measure.of_log(spec, settings, log)
    else:
        project = measure.short_project(spec, settings, steps, nodes)
        if render:
            measure.write(project, output, force)
            click.echo(f"submit it with: sbatch {output / 'job.sh'}")
            click.echo(
                f"then: clusterjobs calibrate {spec} --log .../job.log, with its --set values"
            )
            return 0
        # With --json, the log of the job goes where messages go.
        with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):
            code, measured = measure.of_run(spec, project, output, force)
        if measured is None:
            click.echo("the short job did not complete: nothing is stored", err=True)
            return code or 1
        found = measured
    file = measure.store_measurement(found)
    if as_json:
        print_json({**found._asdict(), "stored": str(file)})
    else:
        click.echo(_summary(found))
        click.echo(f"stored in {file}")
    return 0


def _summary(found: Measurement) -> str:
    memory = f"{found.peak_gib:.3g} GiB a GPU" if found.peak_gib else "no memory in the log"
    return f"step {found.step_seconds:.3g} s (median of {found.steps} steps), {memory}"
