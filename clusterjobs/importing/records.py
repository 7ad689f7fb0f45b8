"""Splits `scontrol show node|partition` and the lines of slurm.conf into keys and values.

Values may have blanks.
"""

import itertools
import re
from collections.abc import Iterator
from typing import NamedTuple

from clusterjobs.errors import InputError, Location, one_problem


class Line(NamedTuple):
    """A line of a file, counted from 1."""

    file: str
    number: int
    text: str

    @property
    def where(self) -> Location:
        return self.at(self.text.strip()[:60])

    def at(self, part: str) -> Location:
        """The position of a part of the line, or of its start if it has no such part."""
        start = len(self.text) - len(self.text.lstrip())
        found = self.text.find(part)
        column = (start if found < 0 else found) + 1
        return Location(self.file, self.number, column, self.text, max(len(part), 1))


class Text(NamedTuple):
    """The text of a file, or what a command has printed; `name` stands in messages."""

    name: str
    text: str

    @property
    def lines(self) -> tuple[Line, ...]:
        rows = self.text.splitlines()
        return tuple(Line(self.name, number, row) for number, row in enumerate(rows, 1))


class Record(NamedTuple):
    """The keys, in lower case, and the values of one node or partition, and its first line."""

    values: dict[str, str]
    line: Line

    def get(self, *keys: str) -> str | None:
        """The value of the first key that it has; None if it means "no value"."""
        for key in keys:
            if (value := self.values.get(key.lower())) is not None:
                return None if value in _NOTHING else value
        return None

    def number(self, *keys: str) -> int | None:
        """The value as a number that is not negative; Raises InputError for anything else."""
        text = self.get(*keys)
        if text is None:
            return None
        if not (text.isascii() and text.isdecimal() and len(text) < 16):
            key = next(key for key in keys if key.lower() in self.values)
            what = f"{key}={text[:40]} is not a number"
            raise self.problem(what, "Slurm writes digits alone, as in RealMemory=512000", text)
        return int(text)

    def problem(self, what: str, hint: str, value: str = "") -> InputError:
        """An error at the line of the record, or at a value in it."""
        where = self.line.at(value[:60]) if value else self.line.where
        return one_problem(what, where, hint=hint)


_NOTHING = frozenset(("", "(null)", "N/A", "n/a", "n/s", "None", "NONE"))
_KEY = re.compile(r"(?:(?<=\s)|^)([A-Za-z][A-Za-z0-9_:/\[\]]*)=")
# Values that people or kernels write: they may have blanks, and words that look like keys.
_FREE_TEXT = frozenset(("os", "reason", "comment", "extra", "admincomment"))
# scontrol(1) prints these after a free text.
_AFTER_FREE_TEXT = frozenset(
    (
        *("realmemory", "allocmem", "sockets", "state", "comment", "extra", "admincomment"),
        *("instanceid", "instancetype", "reason", "reservation", "resourcelayout"),
    )
)
_HEADS = re.compile(r"\s*(NodeName|PartitionName)=", re.IGNORECASE)


def scontrol_records(text: Text, head: str) -> Iterator[Record]:
    """The records of `scontrol show`, with `--oneliner` and without."""
    first: Line | None = None
    parts: list[str] = []
    for line in text.lines:
        if found := _HEADS.match(line.text):
            if first is not None:
                yield Record(_values(" ".join(parts)), first)
            is_wanted = found[1].lower() == head
            first, parts = (line, [line.text]) if is_wanted else (None, [])
        elif first is not None and line.text.strip():
            parts.append(line.text)
    if first is not None:
        yield Record(_values(" ".join(parts)), first)


def _values(text: str) -> dict[str, str]:
    """The first value of each key counts: one in a free text comes later than the true one."""
    found: dict[str, str] = {}
    current, start = "", 0
    for match in _KEY.finditer(text):
        key = match[1].lower()
        if current in _FREE_TEXT and key not in _AFTER_FREE_TEXT:
            continue
        if current:
            found.setdefault(current, text[start : match.start()].strip())
        current, start = key, match.end()
    if current:
        found.setdefault(current, text[start:].strip())
    return found


# ------------------------------------------------------------------ slurm.conf

_CONF_PAIR = re.compile(r"([A-Za-z][\w.\[\]]*)\s*=\s*(\"[^\"]*\"|[^\s\"]*)")


def conf_lines(text: Text) -> Iterator[Line]:
    """The lines of slurm.conf: without comments, and those that end in a backslash joined."""
    first: Line | None = None
    joined = ""
    for line in text.lines:
        content = re.sub(r"(?<!\\)#.*", "", line.text).replace("\\#", "#")
        first = first or line
        if content.rstrip().endswith("\\"):
            joined += content.rstrip()[:-1] + " "
            continue
        if (joined + content).strip():
            yield Line(first.file, first.number, (joined + content).strip())
        first, joined = None, ""
    if first is not None and joined.strip():
        yield Line(first.file, first.number, joined.strip())


def conf_record(line: Line) -> Record:
    """The pairs of one line of slurm.conf or gres.conf."""
    pairs = _CONF_PAIR.findall(line.text)
    return Record({key.lower(): value.strip('"') for key, value in pairs}, line)


# ------------------------------------------------------------------ hostlist
# Slurm's lists of nodes: `a[01-10,12]b[1-2]`.


MAX_NODES = 200_000
MAX_NAME_BYTES = 255  # a node has a host name
_PART = re.compile(r"\[([^\[\]]*)\]|([^\[\]]+)")
_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?", re.ASCII)


class HostlistError(ValueError):
    """The text is no list of nodes; the message says why."""


def expand(text: str) -> list[str]:
    """The names of all nodes. Raises HostlistError for what cannot be one, or is too long."""
    names: list[str] = []
    for one in _split(text):
        names += itertools.islice(_names(one), MAX_NODES + 1 - len(names))
        if len(names) > MAX_NODES:
            raise HostlistError(f"more than {MAX_NODES:,} nodes")
    return names


def _split(text: str) -> list[str]:
    """The parts between commas that are not in brackets."""
    parts, depth, start = [], 0, 0
    for at, character in enumerate(text):
        depth += (character == "[") - (character == "]")
        if depth not in (0, 1):
            break
        if character == "," and not depth:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    if depth:
        raise HostlistError("a bracket is not closed" if depth == 1 else "brackets do not fit")
    return [part.strip() for part in parts if part.strip()]


def _names(text: str) -> Iterator[str]:
    parts: list[list[str]] = []
    number = length = 0
    for one in _PART.finditer(text):
        parts.append([one[2]] if one[2] is not None else _numbers(one[1]))
        number = max(number, 1) * len(parts[-1])
        length += min(map(len, parts[-1]), default=0)
        if length > MAX_NAME_BYTES:
            raise HostlistError(f"a name of more than {MAX_NAME_BYTES} characters: {text[:40]}...")
        if number > MAX_NODES:
            raise HostlistError(f"more than {MAX_NODES:,} nodes")
    return map("".join, itertools.product(*parts))


def _numbers(text: str) -> list[str]:
    found: list[str] = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece.strip())
        if not match:
            raise HostlistError(f"[{text[:40]}] has no range of numbers")
        first, last = match[1], match[2] or match[1]
        if int(last) < int(first):
            raise HostlistError(f"{piece.strip()} counts down")
        if int(last) - int(first) + len(found) > MAX_NODES:
            raise HostlistError(f"more than {MAX_NODES:,} nodes")
        width = len(first)
        found += [f"{number:0{width}}" for number in range(int(first), int(last) + 1)]
    return found


# ------------------------------------------------------------------ gres
# The GPUs in Slurm's generic resources: `gpu:a100:8(S:0-1)`.


class Gpus(NamedTuple):
    """GPUs of one type in a node; the type is "" where Slurm has none."""

    type: str
    number: int

    @property
    def is_part(self) -> bool:
        """A part of a GPU: NVIDIA's MIG, which AutoDetect names `nvidia_a100_3g.20gb`."""
        return bool(_MIG.search(self.type))


_MIG = re.compile(r"\d+g\.\d+gb")
_IN_BRACKETS = re.compile(r"\([^()]*\)")
_COUNT = re.compile(r"(\d{1,6})([kK]?)", re.ASCII)


def gpus_of(gres: str) -> tuple[Gpus, ...]:
    """The GPUs of a node, whole ones first. Raises ValueError for a count that is no number."""
    found: dict[str, int] = {}
    for one in _IN_BRACKETS.sub("", gres).split(","):
        name, *rest = one.strip().split(":")
        if name != "gpu":
            continue
        rest = [part for part in rest if part != "no_consume"]
        count = 1
        if rest and (match := _COUNT.fullmatch(rest[-1])):
            count = int(match[1]) * (1024 if match[2] else 1)
            rest.pop()
        kind = ":".join(rest)
        if "[" in kind or len(rest) > 1:
            raise ValueError(f"{one.strip()[:60]} is no GRES of GPUs")
        found[kind] = found.get(kind, 0) + count
    gpus = [Gpus(kind, count) for kind, count in found.items() if count]
    return tuple(sorted(gpus, key=lambda one: (one.is_part, -one.number)))
