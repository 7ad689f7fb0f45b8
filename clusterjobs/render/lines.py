"""What several blocks of the script print: paths, commands, options, an srun per node."""

from __future__ import annotations

import functools
import re
import textwrap
from collections.abc import Iterable

from clusterjobs import resources
from clusterjobs.plan.directives import Directive
from clusterjobs.render import shell
from clusterjobs.render.shell import ShellText

WIDTH = 100


def section(title: str) -> ShellText:
    """The heading of a block, ruled off as those in the templates."""
    return shell.comment(f"# ---- {title} ".ljust(WIDTH - 4, "-"))


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
    """Options of an srun beside the training: one task on every node, with all its CPUs.

    Left to srun, it is one CPU in Slurm 22.05 to 23.02, and a rank's share before and after.
    """
    cpus = '--cpus-per-task="$SLURM_CPUS_ON_NODE"'
    once = f"--nodes={nodes} --ntasks={nodes} --ntasks-per-node=1"
    return ShellText(f"--overlap --cpu-bind=none {cpus} \\\n  {once}")


def path_text(path: str) -> ShellText:
    """A path on the node; a relative one counts from the folder where sbatch was called.

    One that starts with a parameter is what the parameter says.
    """
    absolute = path if path.startswith(("/", "${", "\0")) else f"${{SLURM_SUBMIT_DIR}}/{path}"
    return shell.quote_expanding(absolute)


def command_text(words: Iterable[str]) -> ShellText:
    """A command in one line."""
    return ShellText(" ".join(map(shell.quote, words)))


def program_text(words: tuple[str, ...]) -> ShellText:
    """Words as a command; `command` in front of a program that has the name of our functions."""
    is_ours = words and words[0] in functions()
    return ShellText(f"command {command_text(words)}") if is_ours else command_text(words)


@functools.cache
def functions() -> frozenset[str]:
    """The names of all functions that a script may have."""
    texts = "\n".join(resources.template_texts().values())
    return frozenset(re.findall(r"(?m)^\s*([\w-]+) *\(\)", texts))


def wrapped(command: str, words: Iterable[str]) -> ShellText:
    """A command with words of ours, in as many lines as it takes."""
    text = " ".join([command, *words])
    return ShellText(" \\\n  ".join(textwrap.wrap(text, WIDTH - 4, break_long_words=False)))
