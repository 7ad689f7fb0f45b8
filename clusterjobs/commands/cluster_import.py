"""clusterjobs clusters import: a description of a Slurm cluster from its Slurm, or from files."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

import click

from clusterjobs.commands.import_texts import texts_of_files, texts_of_slurm
from clusterjobs.commands.probe_nodes import run_probes
from clusterjobs.commands.show import show_problems
from clusterjobs.errors import InputError, Problem
from clusterjobs.slurmcluster.importing.collect import collect
from clusterjobs.slurmcluster.importing.probe import complete_cluster
from clusterjobs.slurmcluster.importing.seen import Seen
from clusterjobs.slurmcluster.importing.write import description_text, nodes_to_probe
from clusterjobs.slurmcluster.read import read_description

_TIMEOUT = 30.0


@click.command(name="import", short_help="Describe a Slurm cluster, from its Slurm or from files.")
@click.option("--from-slurm", is_flag=True, help="Ask Slurm: run this on a login node.")
@click.option("--from-files", is_flag=True, help="Read FILES instead, if you have no login.")
@click.argument("files", nargs=-1, type=click.Path(path_type=pathlib.Path))
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    help="Describe only this one; may be repeated.",
)
@click.option("--name", default="", help="The cluster's name; by default Slurm's ClusterName.")
@click.option(
    "--probe", is_flag=True, help="Run a small job on one node of each type: fabric, GPUs, disks."
)
@click.option(
    "--probe-seconds",
    default=300.0,
    show_default=True,
    type=click.FloatRange(min=1, max=86400),
    help="Seconds to wait for a free node of each type.",
)
@click.option(
    "--timeout",
    default=_TIMEOUT,
    show_default=True,
    type=click.FloatRange(min=0.1, max=3600),
    help="Seconds to wait for Slurm.",
)
def import_(
    from_slurm: bool,
    from_files: bool,
    files: tuple[pathlib.Path, ...],
    partitions: tuple[str, ...],
    name: str,
    probe: bool,
    probe_seconds: float,
    timeout: float,
) -> None:
    """Print the description of a Slurm cluster that ParallelCluster did not make.

    The output is a file for `cluster:` of a spec: partitions, node types, limits, shared folders.
    A value that was not found is a commented line that says what the value decides.

    With --probe, a job of a few seconds on one node of each type finds its fabric, GPUs, disks and
    mounts. It uses SLURM_ACCOUNT and SLURM_QOS, as srun does.

    FILES are saved outputs of scontrol show node, partition or config, of sinfo, of sacctmgr show
    assoc and of /proc/mounts; or slurm.conf and gres.conf. They are recognised by their content.

    \b
    Examples:
      clusterjobs clusters import --from-slurm > mycluster.yaml
      clusterjobs clusters import --from-slurm --partition gpu --probe > mycluster.yaml
      scontrol --oneliner show node > nodes.txt
      scontrol show partition > partitions.txt
      scontrol show config > config.txt
      clusterjobs clusters import --from-files nodes.txt partitions.txt config.txt > mycluster.yaml
      clusterjobs clusters import --from-files /etc/slurm/slurm.conf > mycluster.yaml
    """
    _check_usage(from_slurm, from_files, files)
    if probe and not from_slurm:
        raise click.UsageError("--probe runs jobs: it needs --from-slurm")
    if from_slurm:
        given, include, warnings, seen_here = texts_of_slurm(timeout, _say)
        how = "clusterjobs clusters import --from-slurm"
    else:
        given, include = texts_of_files(files)
        warnings, seen_here = [], Seen()
        how = f"clusterjobs clusters import --from-files {_names(files)}"
    show_problems(warnings)
    seen = collect(given, include)
    seen.found_programs, seen.slurm_commands = seen_here.found_programs, seen_here.slurm_commands
    if probe:
        complete_cluster(seen, run_probes(nodes_to_probe(seen, partitions), probe_seconds))
        how += " --probe"
    click.echo(_description(seen, partitions, how, name), nl=False)


def _check_usage(from_slurm: bool, from_files: bool, files: Sequence[pathlib.Path]) -> None:
    if from_slurm == from_files:
        raise click.UsageError("write --from-slurm, or --from-files and the files")
    if from_slurm and files:
        raise click.UsageError(f"--from-slurm reads no files: leave out {files[0]}")
    if from_files and not files:
        raise click.UsageError("--from-files needs files: --from-files nodes.txt partitions.txt")


def _names(files: Sequence[pathlib.Path]) -> str:
    return " ".join(file.name for file in files)


def _say(command: str) -> None:
    click.echo(f"asking {command}", err=True)


def _description(seen: Seen, partitions: Sequence[str], how: str, name: str) -> str:
    """The text, which must be one that `cluster:` accepts."""
    text = description_text(seen, partitions, how, name)
    try:
        read_description(text, "imported description")
    except InputError as error:
        hint = "save the output with > FILE, and correct these values by hand"
        problems = [problem._replace(hint=problem.hint or hint) for problem in error.problems]
        show_problems([*_as_warnings(problems)])
    return text


def _as_warnings(problems: Sequence[Problem]) -> list[Problem]:
    return [problem._replace(warning=True) for problem in problems]
