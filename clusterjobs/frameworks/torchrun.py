"""A Python script that reads torch.distributed's variables: RANK, WORLD_SIZE, MASTER_ADDR ..."""

from __future__ import annotations

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import (
    OWN_SCRIPT,
    LogLine,
    Program,
    Task,
    argument_words,
    script_of,
)
from clusterjobs.provenance import Provenance
from clusterjobs.spec.model import SpecModel


class Torchrun:
    """`framework: torchrun`."""

    name = "torchrun"
    saving = OWN_SCRIPT
    launchers: tuple[str, ...] = ("torchrun", "srun")
    options: type[SpecModel] | None = None
    log_lines: tuple[LogLine, ...] = ()  # the program's own, which only its author knows

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        script = script_of(task.experiment, diagnostics)
        if script is None:
            return None
        return Program((script, *argument_words(task.experiment)), is_python=True)
