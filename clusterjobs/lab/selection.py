"""The labs of this user: selects one by name, reads its shape, collects its state."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterjobs.console import print_json, styled, table
from clusterjobs.errors import one_problem

if TYPE_CHECKING:
    from clusterjobs.lab.lab import Lab
    from clusterjobs.lab.shape import LabSpec


name_option = click.option(
    "--name",
    default="lab",
    show_default=True,
    envvar="CLUSTERJOBS_LAB",
    metavar="NAME",
    help="The lab, if several are running; also CLUSTERJOBS_LAB.",
)


def say(line: str) -> None:
    """Print to stderr: stdout is for logs and JSON."""
    click.echo(styled(line, dim=True), err=True)


def read_shape(cluster: str, nodes: int, queue: str | None, controller_only: bool) -> LabSpec:
    """The shape of the lab for a cluster, by its name or file. Raises InputError."""
    from clusterjobs.clusters.source import find_cluster
    from clusterjobs.lab.shape import lab_spec
    from clusterjobs.runs.clusters import cluster_source
    from clusterjobs.sites.folders import (
        find_site_folders,
        load_site,
        read_sites,
        read_text,
        site_files,
    )

    file = find_cluster(cluster, Path.cwd(), site=find_site_folders().cluster_files)
    source = cluster_source(read_text(file), str(file), load_site(read_sites(site_files(file))))
    return lab_spec(source.shape(), nodes, queue, controller_only)


def small_queue_notices(spec: LabSpec, nodes: int) -> Iterator[str]:
    """A line for each queue that has fewer nodes than requested."""
    for queue in () if spec.controller_only else spec.partitions:
        has = sum(group.count for group in queue.groups)
        if has < nodes:
            setting = spec.size_setting
            yield (
                f"queue {queue.name} has only {has} of {nodes} nodes, because of its {setting}: "
                f"to get more, raise {setting} in a copy of the config {spec.cluster}"
            )


def lab_named(name: str) -> Lab:
    """The lab of that name, running or not."""
    from clusterjobs.lab.lab import Lab

    if not name.replace("-", "").replace("_", "").isalnum():
        raise click.UsageError(f"--name: letters, digits, - and _ only, not {name!r}")
    return Lab(_labs_dir() / name)


def labs() -> dict[str, Lab]:
    """All labs of this user by name, running or not."""
    from clusterjobs.lab.lab import Lab

    folders = sorted(file.parent for file in _labs_dir().glob("*/lab.json"))
    return {folder.name: Lab(folder) for folder in folders}


def existing(name: str) -> Lab:
    """The lab of that name, running or not. Raises InputError if there is none."""
    this = lab_named(name)
    if not this.folder.path.is_dir():
        known = ", ".join(labs())
        hint = f"your labs: {known}" if known else "you have no labs"
        raise one_problem(f"there is no lab named {name}", hint=hint)
    return this


def _labs_dir() -> Path:
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local/state"
    return Path(base) / "clusterjobs/labs"


def running(name: str) -> Lab:
    """The lab of that name. Raises InputError if it is not running."""
    this = lab_named(name)
    if this.init is None:
        hint = f"clusterjobs lab up CLUSTER{this.folder.name_option}"
        raise one_problem(f'the lab "{name}" is not running', hint=hint)
    return this


def path_on_this_machine(name: str, path: str) -> Path:
    """The file that is `path` for the jobs of the lab of that name, running or stopped."""
    folder = lab_named(name).folder
    return folder.host_path(path) if (folder / "lab.json").exists() else Path(path)


def state_of(this: Lab, name: str) -> dict[str, object]:
    """The state of a lab, as plain data."""
    state: dict[str, object] = {"name": name, "folder": str(this.folder.path), "up": False}
    if this.init is None:
        return state
    nodes = this.node_states()
    queue = this.run(["squeue", "--noheader", "--format=%i %T"]).stdout.splitlines()
    return state | {
        "up": True,
        "cluster": this.facts.cluster,
        "slurm": this.facts.slurm,
        "bin": str(this.folder / "bin"),
        "shared": {path: str(this.folder.shared(path)) for path in this.facts.shared},
        "nodes": nodes,
        "jobs": dict(line.split() for line in queue),
    }


# ------------------------------------------------------------------ lab list


@click.command("list", short_help="List your labs.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(as_json: bool) -> None:
    """List your labs: cluster, Slurm's version, last start, and whether each is running.

    A stopped lab keeps its shared folders and logs until `lab down --delete`.

    \b
    Examples:
      clusterjobs lab list
      clusterjobs lab list --json | jq -r '.[] | select(.up) | .name'
    """
    found = [_row(name, lab) for name, lab in labs().items()]
    if as_json:
        print_json(found)
    elif found:
        click.echo(table([_HEAD, *map(_cells, found)]))
    else:
        say("you have no labs: clusterjobs lab up CLUSTER starts one")


_HEAD = ("name", "cluster", "Slurm", "started", "state", "folder")


def _row(name: str, this: Lab) -> dict[str, Any]:
    """`started` in seconds since 1970; the unknown facts of a damaged lab are None."""
    facts = this.folder.facts_if_readable()
    return {
        "name": name,
        "cluster": facts and facts.cluster,
        "slurm": facts and facts.slurm,
        "started": _started(this.folder / "lab.json"),
        "up": this.init is not None,
        "folder": str(this.folder.path),
    }


def _started(file: Path) -> int | None:
    try:
        return int(file.stat().st_mtime)
    except OSError:  # the lab was deleted meanwhile
        return None


def _cells(row: dict[str, Any]) -> list[str]:
    known = [row[key] or "?" for key in ("name", "cluster", "slurm")]
    started = time.localtime(row["started"] or 0)
    state = "running" if row["up"] else "stopped"
    return [*known, time.strftime("%Y-%m-%d %H:%M", started), state, row["folder"]]
