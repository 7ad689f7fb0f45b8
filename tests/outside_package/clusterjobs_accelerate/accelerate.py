"""Hugging Face Accelerate: one `accelerate launch` per node. It needs two ranks or more.

Source: accelerate 1.15, commands/launch.py; `accelerate launch --help`.
"""

from __future__ import annotations

import pathlib

from clusterjobs.launchers import Launcher

ACCELERATE = Launcher(
    "accelerate",
    "one accelerate launch per node starts the node's ranks",
    starts_python=True,
    no_python_option="--no_python",
    frameworks=("torchrun",),
    template_folder=pathlib.Path(__file__).parent / "templates",
)
