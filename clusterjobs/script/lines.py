"""Lines that several sections of the script print: headings, options, commands, wrapped words."""

import functools
import itertools
import re
import textwrap
from collections.abc import Iterable

from clusterjobs import resources
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.slurm.options import Directive
from clusterjobs.text import Text, Value

WIDTH = 100
NOTHING = ShellText("")


def heading(title: str) -> ShellText:
    """The heading of a part of `main`, as in the templates."""
    return ShellText(shell.comment(f"# ---- {title} ".ljust(WIDTH - 6, "-")))


def with_reason(line: ShellText, reason: str) -> list[ShellText]:
    """The line, with its reason as a comment after it, or above a long line; "" is no reason."""
    if not reason:
        return [line]
    because = ShellText(shell.comment(f"# {reason}"))
    if len(line) + len(because) < WIDTH + 20:
        return [ShellText(f"{line} {because}")]
    return [because, line]


def option_lines(options: Iterable[Directive]) -> list[ShellText]:
    """An option on each line with its reason; options with the same reason share a line."""
    lines: list[ShellText] = []
    for reason, group in itertools.groupby(options, key=lambda one: one.reason):
        texts = [shell.option(one.name, one.value) for one in group]
        if not reason or reason.startswith("srun:"):
            lines += texts
        else:
            lines += with_reason(ShellText(" ".join(texts)), reason)
    return lines


def once_per_node(nodes: int) -> ShellText:
    """Options of an srun with one task per node, in parallel to the training, with all CPUs.

    By default the task gets one CPU in Slurm 22.05 to 23.02, and a rank's share in other versions.
    """
    cpus = '--cpus-per-task="$SLURM_CPUS_ON_NODE"'
    once = f"--nodes={nodes} --ntasks={nodes} --ntasks-per-node=1"
    return ShellText(f"--overlap --cpu-bind=none {cpus} \\\n    {once}")


def command_text(words: Iterable[Value]) -> ShellText:
    """A command in one line."""
    return ShellText(" ".join(map(shell.quote, words)))


def program_text(words: tuple[Value, ...]) -> ShellText:
    """A command; after the builtin `command` if the script may have a function of the same name."""
    is_ours = words and (isinstance(words[0], Text) or words[0] in functions())
    return ShellText(f"command {command_text(words)}") if is_ours else command_text(words)


@functools.cache
def functions() -> frozenset[str]:
    """The names of all functions of the templates."""
    texts = "\n".join(resources.template_texts().values())
    return frozenset(re.findall(r"(?m)^\s*([\w-]+) *\(\)", texts))


@functools.lru_cache(maxsize=64)  # nearly all jobs have the same
def wrapped(words: tuple[str, ...]) -> tuple[ShellText, ...]:
    """Words that need no quotes, wrapped into lines."""
    lines = textwrap.wrap(
        " ".join(words), WIDTH - 10, break_long_words=False, break_on_hyphens=False
    )
    return tuple(map(ShellText, lines))
