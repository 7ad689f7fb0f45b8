"""A launcher of this site: one `accelerate launch` per node. It needs two ranks or more.

Source: accelerate 1.15, commands/launch.py; `accelerate launch --help`.
"""

from __future__ import annotations

import pathlib
from typing import Literal

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.launchers import Launched, Launcher, LauncherOptions


class Options(LauncherOptions):
    """`my-accelerate: {mixed_precision: bf16}` in a spec."""

    mixed_precision: Literal["no", "fp16", "bf16"] | None = None

    def words(self, launched: Launched, diagnostics: Diagnostics) -> tuple[str, ...]:
        if launched.nodes * launched.ranks_per_node == 1:
            hint = "give it more ranks, or write launcher: srun"
            diagnostics.problem(("launcher",), "my-accelerate needs two ranks or more", hint)
        return (f"--mixed_precision={self.mixed_precision}",) if self.mixed_precision else ()


ACCELERATE = Launcher(
    "my-accelerate",
    "one accelerate launch per node starts the node's ranks",
    starts_python=True,
    no_python_option="--no_python",
    frameworks=("torchrun",),
    options=Options,
    template_folder=pathlib.Path(__file__).parent / "templates",
)
