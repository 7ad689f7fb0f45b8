"""`clusterjobs lab kill-node` and `start-node`: break and repair nodes of a lab."""

from __future__ import annotations

import click

from clusterjobs.commands.lab_selection import name_option, running, say

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
