"""torchrun, one per node. Source: PyTorch, torch/distributed/run.py."""

from __future__ import annotations

from clusterjobs.launchers.base import Launcher
from clusterjobs.launchers.torchrun_options import Options

TORCHRUN = Launcher(
    "torchrun",
    "one torchrun per node starts the node's ranks",
    starts_python=True,
    no_python_option="--no-python",
    shares_nodes=True,
    label_setting="torchrun: {tee: 3}",
    sets_node_rank=True,
    options=Options,
)
