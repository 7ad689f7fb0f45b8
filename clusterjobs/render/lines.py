"""Lines of the script that several of its blocks print: options with reasons, an srun per node."""

from __future__ import annotations

from clusterjobs.plan.directives import Directive
from clusterjobs.render import shell
from clusterjobs.render.shell import ShellText

WIDTH = 100


def with_reason(line: ShellText, reason: str) -> list[ShellText]:
    """The line with its reason behind it, or above it where the line is long."""
    because = shell.comment(f"# {reason}")
    if len(line) + len(because) < WIDTH:
        return [ShellText(f"{line} {because}")]
    return [because, line]


def option_lines(option: Directive) -> list[ShellText]:
    """An option on a line; the spec's own has no reason but that it is there."""
    text = shell.option(option.name, option.value)
    plain = not option.reason or option.reason.startswith("srun:")
    return [text] if plain else with_reason(text, option.reason)


def once_per_node(nodes: int) -> ShellText:
    """Options of an srun beside the training: one task on every node."""
    once = f"--nodes={nodes} --ntasks={nodes} --ntasks-per-node=1"
    return ShellText(f"--overlap --cpu-bind=none {once}")
