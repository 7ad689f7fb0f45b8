"""clusterjobs calibrate: measures a spec's layout in a short job, and stores what it found.

The short job has the same layers and micro batch, few nodes and few steps.
"""

import contextlib
import datetime
import json
import math
import pathlib
import sys

import click

from clusterjobs.console import force_option, print_json, set_option, spec_argument
from clusterjobs.errors import one_problem
from clusterjobs.foresight.measured import Measurement, measured_key, store
from clusterjobs.plugins import Unknown, read_run
from clusterjobs.runs.jobs.folders import job_folders
from clusterjobs.runs.jobs.logs_folder import logs_folder
from clusterjobs.runs.load import load_first
from clusterjobs.runs.run import Run
from clusterjobs.runs.training import Training, steps_argument, training_of
from clusterjobs.runs.write import write_outputs
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.text import show
from clusterjobs.yaml.document import dotted

TIME_LIMIT = "00:20:00"
SUFFIX = "-calibration"


def short_settings(loaded: LoadedSpec, job: Training, steps: int, nodes: int | None) -> list[str]:
    """What `--set` must say for the short job. Raises InputError if a layout needs more nodes."""
    layout, spec = job.layout, loaded.spec
    ranks = layout.tensor * layout.pipeline * layout.context
    least = math.ceil(ranks / layout.gpus_per_node)
    number = nodes or least
    gpus = number * layout.gpus_per_node
    if gpus % ranks:
        what = f"{gpus} GPUs of {number} nodes cannot be divided by the {ranks} of one copy"
        raise one_problem(what, hint=f"--nodes {least}")
    accumulation = min(int(layout.micro_batches), max(1, 2 * layout.pipeline))
    batch = layout.micro_batch * accumulation * (gpus // ranks)
    settings = [
        f"name={spec.name}{SUFFIX}",
        f"nodes={number}",
        f"time_limit={TIME_LIMIT}",
        f"batch.micro={layout.micro_batch}",
        f"batch.global={batch}",
    ]
    if spec.batch and spec.batch.accumulation is not None:
        settings.append(f"batch.accumulation={accumulation}")
    found = steps_argument(loaded.spec)
    if found is None:
        raise one_problem(
            "no argument says how many steps the program makes",
            loaded.source.locate(("args",)),
            hint="add one to args, as train-iters or max-steps, or measure a log: --log job.log",
        )
    path, unit = found
    amount = {
        "steps": steps,
        "samples": steps * batch,
        "tokens": steps * batch * job.model.sequence,
    }
    settings.append(f"{dotted(path)}={amount[unit]}")
    # Its checkpoints must never mix with those of the real job.
    if spec.checkpoints and SUFFIX not in show(spec.checkpoints.path):
        written = str(loaded.merged.data.get("checkpoints", {}).get("path", ""))
        if "name }}" not in written:
            known = spec.checkpoints.path
            folder = f"{(known if isinstance(known, str) else written).rstrip('/')}{SUFFIX}"
            quoted = folder if isinstance(known, str) else json.dumps(folder)
            settings.append(f"checkpoints.path={quoted}")
    return settings


def job_of(run: Run) -> Training:
    """The job of a run; CPUs count as GPUs where a node has none. Raises InputError."""
    (job,) = run.planned_jobs
    found = training_of(job.plan, job.loaded, job.source.facts, job.texts, with_cpus=True)
    if isinstance(found, Unknown):
        raise one_problem(found.why, run.loaded.source.locate(()), hint=found.hint)
    return found


def of_run(run: Run, output: pathlib.Path, force: bool) -> tuple[int, Measurement | None]:
    """Submit the short job, follow it, and read its log; the job's exit code."""
    from clusterjobs.runs.follow.run import run_to_the_end
    from clusterjobs.runs.submit.points import SubmitOptions

    code = run_to_the_end(run, output, force, SubmitOptions()).exit_code
    if code:
        return code, None
    logs = logs_folder(run.loaded.spec.logs.path)
    own = [one for one in job_folders(logs) if one.plan.get("name") == run.plan.job.name]
    if not own:
        raise one_problem(f"the short job left no folder in {logs}", hint="see its log, and --log")
    return 0, measurement(run, own[-1].path / "job.log")


def measurement(run: Run, log: pathlib.Path) -> Measurement:
    """A measurement from the log of the run. Raises InputError."""
    job = job_of(run)
    layout = job.layout
    found = read_run(log, run.planned_jobs[0])
    if found["step_seconds"] is None:
        why = found["no_steady_state"] or "it has no step with a speed"
        hint = "log each step, with samples/s: or step time: ... ms in the line"
        raise one_problem(f"{log}: {why}", hint=hint)
    return Measurement(
        measured_key(job),
        layout.gpus,
        layout.global_batch,
        layout.nodes,
        found["step_seconds"],
        found["peak_memory_gib"],
        found["spread"]["seconds"]["count"],
        datetime.datetime.now(datetime.timezone.utc).date().isoformat(),
        f"{run.plan.job.cluster}: {job.nodes.node_type}",
    )


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

    if log and (render or nodes):
        raise click.UsageError("--log reads a job that has run: remove --render and --nodes")
    if log:
        found = measurement(load_first(spec, settings), log)
    else:
        whole = load_first(spec, settings)
        more = short_settings(whole.loaded, job_of(whole), steps, nodes)
        run = load_first(spec, [*settings, *more])
        if render:
            write_outputs(output, run.outputs(), force)
            click.echo(f"submit it with: sbatch {output / 'job.sh'}")
            click.echo(
                f"then: clusterjobs calibrate {spec} --log .../job.log, with its --set values"
            )
            return 0
        # With --json, the log of the job goes where messages go.
        with contextlib.redirect_stdout(sys.stderr if as_json else sys.stdout):
            code, measured = of_run(run, output, force)
        if measured is None:
            click.echo("the short job did not complete: nothing is stored", err=True)
            return code or 1
        found = measured
    file = store(found)
    if as_json:
        print_json({**found._asdict(), "stored": str(file)})
    else:
        memory = f"{found.peak_gib:.3g} GiB a GPU" if found.peak_gib else "no memory in the log"
        click.echo(f"step {found.step_seconds:.3g} s (median of {found.steps} steps), {memory}")
        click.echo(f"stored in {file}")
    return 0
