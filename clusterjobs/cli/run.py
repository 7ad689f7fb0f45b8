"""clusterjobs run: submits a spec, and follows its job or its points to the end."""

import contextlib
import pathlib
import sys

import click

from clusterjobs.api import load
from clusterjobs.console import print_json, submit_options
from clusterjobs.runs.answers import RunAnswer

_EXAMPLES = """\b
Examples:
  clusterjobs run exp.yaml
  clusterjobs run exp.yaml --set nodes=4 -- --dependency=afterok:123
  clusterjobs run sweep.yaml --points 3,7-9
"""


@click.command(epilog=_EXAMPLES)
@submit_options
@click.option(
    "--json", "as_json", is_flag=True, help="Print how it ended as JSON; the log goes to stderr."
)
@click.argument("sbatch_options", nargs=-1, type=click.UNPROCESSED)
def run(
    spec: pathlib.Path,
    output: pathlib.Path,
    settings: tuple[str, ...],
    force: bool,
    patterns: tuple[str, ...],
    failed: bool,
    completed: bool,
    yes: bool,
    as_json: bool,
    sbatch_options: tuple[str, ...],
) -> int:
    """Submit SPEC and follow the job until it ends: why it waits, its log, how it ended.

    The exit code is the job's. For a sweep or an array, it prints a line for each change of a
    point's state, and the exit code is 0 if all points have completed, else 1.

    Ctrl-C asks whether to cancel the job; a second Ctrl-C leaves it running. SBATCH_OPTIONS follow
    `--`.
    """
    from clusterjobs.runs.follow.run import run_to_the_end
    from clusterjobs.runs.submit.points import SubmitOptions

    loaded = load(spec, set=settings)
    if not loaded.sweep and (patterns or failed or completed):
        raise click.UsageError(f"--points, --failed, --all: {spec} has no sweep")
    options = SubmitOptions(patterns, completed, failed, yes, sbatch_options)
    with contextlib.redirect_stdout(sys.stderr) if as_json else contextlib.nullcontext():
        end = run_to_the_end(loaded, output, force, options)
    if as_json:
        answer: RunAnswer = {
            "job_ids": list(end.job_ids),
            "exit_code": end.exit_code,
            "points": [{"name": name, "state": state} for name, state in end.states.items()],
        }
        print_json(answer)
    return end.exit_code
