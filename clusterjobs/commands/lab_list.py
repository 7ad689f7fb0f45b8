"""`clusterjobs lab list`: all labs of this user.

This module knows the output; it must not know how a lab is found.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from clusterjobs.commands.lab_selection import labs, say
from clusterjobs.commands.show import print_json, table

if TYPE_CHECKING:
    from clusterjobs.lab.lab import Lab


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
