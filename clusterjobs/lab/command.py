"""`clusterjobs lab`: a temporary, real Slurm cluster on this machine.

The modules that start labs are imported only when they are used.
"""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from clusterjobs.console import output_option, print_json, set_option
from clusterjobs.errors import InputError, Problem, counted
from clusterjobs.lab.folder import LabFolder
from clusterjobs.lab.selection import (
    existing,
    lab_named,
    list_,
    name_option,
    read_shape,
    running,
    say,
    small_queue_notices,
    state_of,
)
from clusterjobs.text import Value

if TYPE_CHECKING:
    from clusterjobs.sections.plan import Plan


# ------------------------------------------------------------------ buckets
# `buckets/NAME` in the folder of a lab stands for s3://NAME.
# A link in a shared folder stands for an association of FSx. On the nodes, `stage_lab.py` finds
# the folders.


def bucket_folder(lab: LabFolder, url: str) -> Path:
    """The folder or file on this machine that stands for `s3://bucket/prefix`."""
    return lab / "buckets" / url.removeprefix("s3://").rstrip("/")


def _bring_buckets(plan: Plan, lab: LabFolder) -> None:
    """Create what the job exports to, and link the folders that stand for buckets.

    Raises InputError for buckets to be read for which there is nothing in this lab. A folder that
    exists already is left as it is: its files stand for the bucket's.
    """
    missing = []
    for url in _buckets(one.source for one in plan.staging.data):
        folder = bucket_folder(lab, url)
        if not folder.exists():
            parent, target = shlex.quote(str(folder.parent)), shlex.quote(str(folder))
            what = f"the lab has no network, and no folder here stands for {url}"
            hint = f"a few of its files are enough: mkdir -p {parent} && cp -r FILES {target}"
            missing.append(Problem(what, hint=hint))
    if missing:
        raise InputError(dict.fromkeys(missing))
    exported = [one.bucket_path for one in plan.checkpoints.links]
    copied = [one.target for one in plan.checkpoints.exports]
    for url in _buckets([*exported, *copied]):
        bucket_folder(lab, url).mkdir(parents=True, exist_ok=True)
    for link in plan.links:
        here = lab.host_path(link.folder)
        if here.is_symlink():
            here.unlink()
        if not here.exists():
            here.parent.mkdir(parents=True, exist_ok=True)
            here.symlink_to(bucket_folder(lab, link.bucket_path))


def _buckets(urls: Iterable[Value]) -> list[str]:
    """The sources in buckets, without those that contain variables of the nodes."""
    return [url for url in urls if isinstance(url, str) and url.startswith("s3://")]


# ------------------------------------------------------------------ the script to submit


class OptionsAfterJob(NamedTuple):
    """The options after JOB: those of `lab run` itself, and `sbatch`'s own in their order.

    -o and --output are sbatch's there.
    """

    settings: list[str]
    names: list[str]
    as_json: bool
    sbatch: list[str]


def options_after_job(arguments: Sequence[str]) -> OptionsAfterJob:
    """Raises UsageError for an option without its value."""
    found: dict[str, list[str]] = {"--set": [], "--name": []}
    others: list[str] = []
    rest = iter(arguments)
    for argument in rest:
        option, equals, value = argument.partition("=")
        if option not in found:
            others.append(argument)
        elif equals or (value := next(rest, "")):
            found[option].append(value)
        else:
            raise click.UsageError(f"{option} needs {'KEY=VALUE' if option == '--set' else 'NAME'}")
    sbatch = [argument for argument in others if argument != "--json"]
    return OptionsAfterJob(found["--set"], found["--name"], sbatch != others, sbatch)


def script_for(job: Path, output: Path, settings: Sequence[str], lab: LabFolder) -> Path:
    """The script to submit. Raises InputError if the lab lacks a bucket that the spec reads."""
    if job.suffix not in (".yaml", ".yml"):
        if settings:
            raise click.UsageError("--set changes a spec, but this is a script")
        return job
    from clusterjobs.console import show_problems
    from clusterjobs.runs.load import load_first
    from clusterjobs.runs.write import write_outputs

    run = load_first(job, settings)
    outputs = run.outputs()
    show_problems(run.warnings)
    _bring_buckets(run.plan, lab)
    write_outputs(output, outputs, force=False)
    return output / "job.sh"


# ------------------------------------------------------------------ broken nodes


_KILLS = ("power", "slurmd", "network", "storage")


@click.command("kill-node", short_help="Break a node.")
@name_option
@click.argument("node")
@click.option(
    "--how",
    type=click.Choice(_KILLS),
    default="power",
    show_default=True,
    help="What fails: the whole node, slurmd, its network, or its shared folders.",
)
def kill_node(name: str, node: str, how: str) -> None:
    """Break NODE; Slurm detects it after some seconds and requeues its jobs.

    \b
    Examples:
      clusterjobs lab kill-node train-dy-p4d-1
      clusterjobs lab kill-node train-dy-p4d-1 --how network
    """
    from clusterjobs.lab import breakage

    this = running(name)
    breakage.kill_node(this, node, how)
    say(
        f"{node} is broken ({how}); to repair it: "
        f"clusterjobs lab start-node {node}{this.folder.name_option}"
    )


@click.command("start-node", short_help="Repair a node.")
@name_option
@click.argument("node")
def start_node(name: str, node: str) -> None:
    """Repair NODE after kill-node.

    \b
    Example:
      clusterjobs lab start-node train-dy-p4d-1
    """
    from clusterjobs.lab import breakage

    breakage.start_node(running(name), node)
    say(f"{node} is started")


_JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")


@click.group()
def lab() -> None:
    """A real Slurm cluster on this machine, shaped like one of your clusters.

    Needs no root and no installed Slurm. Jobs run unchanged; GPUs exist only in Slurm.

    \b
    Examples:
      clusterjobs lab up p4d-a100          start two nodes of each queue
      clusterjobs lab run generated/job.sh submit a script and follow its log
      clusterjobs lab shell                open a shell where its folders are mounted
      clusterjobs lab list                 show all labs
      clusterjobs lab down                 stop it
    """


@lab.command(short_help="Start a lab shaped like a cluster.")
@click.argument("cluster")
@click.option(
    "--nodes",
    default=2,
    show_default=True,
    type=click.IntRange(1, 512),
    help="Nodes of each type in a queue.",
)
@click.option("--queue", metavar="QUEUE", help="Only this queue.")
@click.option(
    "--controller-only",
    is_flag=True,
    help="Start no nodes: all nodes exist only in Slurm's config, for sbatch --test-only.",
)
@click.option(
    "--slurm",
    "version",
    type=click.Choice(["own", "22.05", "24.11", "26.05"]),
    envvar="CLUSTERJOBS_SLURM",
    help="Slurm's version, by default the nearest to the cluster's. own: this machine's. "
    "Others are downloaded once. Also CLUSTERJOBS_SLURM.",
)
@click.option("--replace", is_flag=True, help="Stop a running lab of this name first.")
@name_option
@_JSON
def up(
    cluster: str,
    nodes: int,
    queue: str | None,
    controller_only: bool,
    version: str | None,
    replace: bool,
    name: str,
    as_json: bool,
) -> None:
    """Start a lab shaped like CLUSTER: the name of a ready config, or the file of a cluster.

    \b
    Examples:
      clusterjobs lab up p4d-a100
      clusterjobs lab up my-cluster.yaml --nodes 4 --queue train
      clusterjobs lab up p5-h100 --controller-only
      clusterjobs lab up p4d-a100 --slurm 24.11
    """
    spec = read_shape(cluster, nodes, queue, controller_only)
    for line in small_queue_notices(spec, nodes):
        say(line)
    this = lab_named(name)
    if replace:
        this.down()
    this.up(spec, say=say, version=version)
    if as_json:
        print_json(state_of(this, name))
        return
    say(f"the lab is running: {counted(len(spec.nodes), 'node')}, Slurm {this.facts.slurm}")
    for directory in spec.shared:
        say(f"  {directory} is {this.folder.shared(directory)}")
    for line in hidden(spec.shared, (sys.prefix, str(Path.cwd()))):
        say(line)
    option = this.folder.name_option
    say(f'  for sbatch and squeue in this shell: eval "$(clusterjobs lab env{option})"')


def hidden(shared: Sequence[str], places: Iterable[str]) -> Iterator[str]:
    """Warns of places on this machine that jobs do not see, below a shared folder of the lab."""
    for folder in shared:
        if found := [one for one in places if Path(one).is_relative_to(folder)]:
            what = f"jobs see the lab's {folder}, and not this machine's with {found[0]}"
            yield f"warning: {what}: use a folder elsewhere, such as below /home"


@lab.command(short_help="Print settings for a shell to use the lab.")
@name_option
def env(name: str) -> None:
    """Print the settings that make a shell use the lab's sbatch, squeue, scontrol, ...

    \b
    Example:
      eval "$(clusterjobs lab env)"
      sbatch generated/job.sh
    """
    this = running(name)
    click.echo(f"export PATH={shlex.quote(str(this.folder / 'bin'))}:$PATH")
    click.echo(f"export CLUSTERJOBS_LAB={shlex.quote(name)}")


@lab.command(
    short_help="Submit a script or a spec, and follow its log.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@name_option
@_JSON
@output_option
@set_option
@click.argument("job", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.argument("sbatch_options", nargs=-1, type=click.UNPROCESSED)
def run(
    name: str,
    as_json: bool,
    output: Path,
    settings: tuple[str, ...],
    job: Path,
    sbatch_options: tuple[str, ...],
) -> None:
    """Submit JOB, a script or a spec, follow its log, and exit with its exit code.

    Ctrl-C leaves the job running. After JOB, all options but --set, --name and --json are sbatch's.

    \b
    Examples:
      clusterjobs lab run examples/tiny-gpt.yaml
      clusterjobs lab run examples/tiny-gpt.yaml --set args.steps=50
      clusterjobs lab run generated/job.sh --time=5
      clusterjobs lab run generated/job.sh --name mine
    """
    from clusterjobs.lab.lab import follow

    after = options_after_job(sbatch_options)
    as_json = as_json or after.as_json
    this = running([name, *after.names][-1])
    script = script_for(job, output, [*settings, *after.settings], this.folder)
    job_id = this.sbatch(script, *after.sbatch)
    say(f"submitted job {job_id}")
    log = this.folder.host_path(this.job(job_id).stdout)
    try:
        end = follow(this, job_id, lambda text: click.echo(text, nl=False, err=as_json), say)
    except KeyboardInterrupt:
        say(f"job {job_id} keeps running, its log is {log}")
        say(f"to cancel it: {this.folder / 'bin/scancel'} {job_id}")
        raise
    if not log.exists():
        say(f"the job wrote no log {log}: does its folder exist?")
    if as_json:
        print_json({"job_id": job_id, **end.__dict__, "log": str(log)})
    raise click.exceptions.Exit(end.exit_code)


@lab.command(
    short_help="Open a shell in the lab, or run a command.",
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
@name_option
@click.option("--node", metavar="NODE", help="On this node, not on the head node.")
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def shell(name: str, node: str | None, command: tuple[str, ...]) -> None:
    """Open a shell on the lab's head node, or run COMMAND there; the shared folders are mounted.

    \b
    Examples:
      clusterjobs lab shell
      clusterjobs lab shell ls -l /fsx
      clusterjobs lab shell --node train-dy-p4d-1
    """
    this = running(name)
    arguments = command or (os.environ.get("SHELL", "bash"),)
    raise click.exceptions.Exit(this.shell(arguments, name, node))


@lab.command()
@name_option
@_JSON
def status(name: str, as_json: bool) -> None:
    """Show the lab's nodes and jobs.

    \b
    Example:
      clusterjobs lab status --json
    """
    this = lab_named(name)
    state = state_of(this, name)
    if as_json:
        print_json(state)
    elif this.init is None:
        click.echo(f"no lab is running in {this.folder.path}")
    else:
        click.echo(f"cluster {state['cluster']}, Slurm {state['slurm']}, {this.folder.path}\n")
        for command in (["sinfo", "--Node", "--format=%22N %12P %10T %G"], ["squeue"]):
            click.echo(this.run(command).stdout)


@lab.command(short_help="Stop the lab.")
@name_option
@click.option("--delete", is_flag=True, help="Also remove its shared folders and logs.")
def down(name: str, delete: bool) -> None:
    """Stop the lab, with all its processes, mounts and networks.

    \b
    Examples:
      clusterjobs lab down
      clusterjobs lab down --name mine
      clusterjobs lab down --delete
    """
    this = existing(name)
    was_up = this.delete() if delete else this.down()
    say(f'the lab "{name}" is stopped' if was_up else f'the lab "{name}" was not running')
    if not delete:
        say(f"shared folders and logs are in {this.folder.path}")


lab.add_command(list_)
lab.add_command(kill_node)
lab.add_command(start_node)
