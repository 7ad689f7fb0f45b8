"""MosaicML's composer, one per node. Source: Composer 0.32.1, composer/cli/launcher.py."""

from __future__ import annotations

from clusterjobs.launchers.base import Launcher

COMPOSER = Launcher(
    "composer",
    "one composer per node starts the node's ranks",
    starts_python=True,
    no_python_option="--command_mode",
    shares_nodes=True,
    sets_node_rank=True,
)
