"""The `#SBATCH` lines of a script, and the keys of a spec that they mean."""

import re
import shlex
from collections.abc import Iterator, Mapping
from typing import NamedTuple

from clusterjobs.slurm.options import known_options


class Directive(NamedTuple):
    """An option by its long name; "" for a flag."""

    name: str
    value: str
    line: int


def read_directives(text: str) -> list[Directive]:
    """The options of the lines before the first command, as sbatch reads them."""
    found: list[Directive] = []
    for number, line in enumerate(text.splitlines(), 1):
        if line.strip() and not line.startswith("#"):
            break
        if line.startswith("#SBATCH"):
            found += _of_line(line.removeprefix("#SBATCH"), number)
    return found


def _of_line(line: str, number: int) -> Iterator[Directive]:
    try:
        words = shlex.split(line, comments=True)
    except ValueError:
        words = line.split()
    while words:
        yield from take_options(words, number)
        del words[:1]


def take_options(words: list[str], number: int) -> Iterator[Directive]:
    """The options of sbatch at the start of a command line, which are removed from it."""
    known = known_options("sbatch")
    while words and words[0].startswith("-") and len(words[0]) > 1:
        word = words.pop(0)
        if word.startswith("--"):
            name, sign, value = word[2:].partition("=")
            longer = [one for one in known.takes_value if one.startswith(name)]
            name = longer[0] if name not in known.takes_value and len(longer) == 1 else name
            takes = known.takes_value.get(name, "required" if words else "none")
            if not sign and takes == "required" and words:
                value = words.pop(0)
        else:
            name, value = known.short.get(word[1], word[1]), word[2:].removeprefix("=")
            if not value and known.takes_value.get(name) == "required" and words:
                value = words.pop(0)
        yield Directive(name, value, number)


def is_read(directive: Directive) -> bool:
    """Whether the value is one that `size_of` understands, if it reads the option."""
    if directive.name in ("ntasks", "ntasks-per-node", "cpus-per-task"):
        return directive.value.isdecimal()
    if directive.name == "nodes":
        return bool(re.fullmatch(r"\d+(-\d+)?", directive.value))
    if directive.name in ("gpus-per-node", "gpus", "gpus-per-task"):
        return _count(directive.value) is not None
    return True


_RANGE = re.compile(r"(\d{1,7})(?:-(\d{1,7})(?::([1-9]\d{0,6}))?)?", re.ASCII)

_MOST_TASKS = 100_000  # more are no list that a spec could have


def read_array(text: str) -> tuple[list[int], int | None]:
    """The indexes of `--array=0-7:2,9%4`, and how many tasks run at a time. Empty if it is no such
    list."""
    listed, _, limit = text.partition("%")
    indexes: list[int] = []
    for part in listed.split(","):
        found = _RANGE.fullmatch(part)
        if not found:
            return [], None
        first, last = int(found[1]), int(found[2] or found[1])
        if last - first > _MOST_TASKS:
            return [], None
        indexes += range(first, last + 1, int(found[3] or 1))
    return sorted(set(indexes)), _number(limit)


class Size(NamedTuple):
    """Nodes, and tasks and GPUs of each node; None where the script does not say it."""

    nodes: int
    tasks_per_node: int | None
    gpus_per_node: int | None


_GPUS = re.compile(r"(?:gpu:)?(?:[A-Za-z][\w.-]*:)?(\d+)(?:\(.*\))?|gpu")


def size_of(options: Mapping[str, str]) -> Size:
    """The size that directives or options of srun ask for."""
    nodes = _number(options.get("nodes", "").split("-")[0]) or 0
    tasks = _number(options.get("ntasks", ""))
    per_node = _number(options.get("ntasks-per-node", ""))
    if not nodes:
        nodes = max(1, (tasks or 1) // (per_node or 1)) if per_node else 1
    if per_node is None and tasks is not None:
        per_node = max(1, tasks // nodes)
    return Size(nodes, per_node, _gpus(options, nodes, per_node))


def _gpus(options: Mapping[str, str], nodes: int, tasks: int | None) -> int | None:
    if (found := _count(options.get("gpus-per-node", ""))) is not None:
        return found
    for one in options.get("gres", "").split(","):
        if one.startswith("gpu"):
            return _count(one)
    if (total := _count(options.get("gpus", ""))) is not None:
        return total // nodes
    if (each := _count(options.get("gpus-per-task", ""))) is not None and tasks:
        return each * tasks
    return None


def _count(text: str) -> int | None:
    found = _GPUS.fullmatch(text)
    return int(found[1] or 1) if found else None


def _number(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
