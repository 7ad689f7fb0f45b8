"""torchrun, one per node, and its own options. Source: PyTorch 2.13, torch/distributed/run.py."""

from __future__ import annotations

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.launchers.base import Launched, Launcher, LauncherOptions
from clusterjobs.spec.field_types import Count


class Options(LauncherOptions):
    """`tee`: print each rank's output and errors with its rank."""

    tee: Count | None = None

    def words(self, launched: Launched, diagnostics: Diagnostics) -> tuple[str, ...]:
        """The options, in the order of `torchrun --help`."""
        return () if self.tee is None else (f"--tee={self.tee}",)


TORCHRUN = Launcher(
    "torchrun",
    "one torchrun per node starts the node's ranks",
    starts_python=True,
    no_python_option="--no-python",
    shares_nodes=True,
    label_setting="env: {PET_TEE: 3}",
    sets_node_rank=True,
    options=Options,
)
