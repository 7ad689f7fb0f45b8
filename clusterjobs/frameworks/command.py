"""Any command, once per rank, with the ranks' variables set: for what no other file knows."""

from __future__ import annotations

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import (
    OWN_SCRIPT,
    LogLine,
    Program,
    Task,
    argument_words,
)
from clusterjobs.provenance import Provenance
from clusterjobs.spec.model import SpecModel


class Command:
    """`framework: command`."""

    name = "command"
    saving = OWN_SCRIPT
    launchers: tuple[str, ...] = ("srun", "torchrun")
    options: type[SpecModel] | None = None
    log_lines: tuple[LogLine, ...] = ()  # the program's own, which only its author knows

    def program(
        self, task: Task, diagnostics: Diagnostics, provenance: Provenance
    ) -> Program | None:
        experiment = task.experiment
        if experiment.script is not None:
            diagnostics.problem(
                ("script",),
                "framework: command runs a command, not a script",
                f"write command: [python3, {experiment.script}], or framework: torchrun",
            )
        if experiment.command is None:
            diagnostics.missing("command", "command is missing", "add `command: [./train, --fast]`")
            return None
        return Program(experiment.command + argument_words(experiment), is_python=False)
