"""Splits `scontrol show node|partition` and the lines of slurm.conf into keys and values.

It knows the two forms of text, and that values may have blanks. It must not know what a key means.
"""

from __future__ import annotations

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
        """The value of the first key that it has; None for Slurm's words for "no value"."""
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
