"""The header of an override: which packaged text it was made from.

Knows the header's lines; it must not know files, nor what a template means.
"""

from __future__ import annotations

import hashlib
import re
from typing import NamedTuple

from clusterjobs.errors import Location, one_problem

_FIRST = "{## Made by `clusterjobs templates override` from "
_LAST = "    Keep these lines: `clusterjobs templates update` needs them. ##}\n"
_HEADER = re.compile(
    re.escape(_FIRST)
    + r"(?P<name>\S+)\.\n"
    + r"    packaged: (?P<packaged>\S+ sha256:[0-9a-f]{64})\n"
    + r"(?:    merging: (?P<merging>\S+ sha256:[0-9a-f]{64})\n)?"
    + re.escape(_LAST)
)


class Origin(NamedTuple):
    """A packaged text: the version of clusterjobs that it came with, and its SHA-256."""

    version: str
    sha256: str


class Header(NamedTuple):
    """`packaged`: what the override was made from. `merging`: what is merged, with conflicts left.

    `name`: the packaged template, such as blocks/launch.sh.j2.
    """

    name: str
    packaged: Origin
    merging: Origin | None = None

    def __str__(self) -> str:
        lines = [f"{_FIRST}{self.name}.\n", _line("packaged", self.packaged)]
        return "".join([*lines, _line("merging", self.merging) if self.merging else "", _LAST])


def _line(word: str, origin: Origin) -> str:
    return f"    {word}: {origin.version} sha256:{origin.sha256}\n"


def origin_of(text: str, version: str) -> Origin:
    """The origin of a packaged text."""
    return Origin(version, hashlib.sha256(text.encode()).hexdigest())


def split_header(text: str, file: str, name: str) -> tuple[Header, str]:
    """The header of the override of `name`, and the text below it.

    Raises InputError if the file has none, if it was edited, or if it is another template's.
    """
    found = _HEADER.match(text)
    lines = text.split("\n")
    if found is None and not text.startswith(_FIRST.rstrip()):
        raise one_problem(
            "this override has no header, so nobody knows from which packaged text it was made",
            Location(file, 1, 1, lines[0], max(1, len(lines[0]))),
            hint=f"move it away, run `clusterjobs templates override {name}`, and make your "
            "changes in the new file",
        )
    if found is None:
        number = _first_edited(lines)
        raise one_problem(
            "the header of this override was edited",
            Location(file, number, 1, lines[number - 1], max(1, len(lines[number - 1]))),
            hint="restore it from your version control: `templates update` merges by it",
        )
    if found["name"] != name:
        raise one_problem(
            f"this override was made from {found['name']}, not from {name}",
            Location(file, 1, len(_FIRST) + 1, lines[0], len(found["name"])),
            hint=f"a copy cannot be merged: run `clusterjobs templates override {name}`",
        )
    packaged, merging = _origin(found["packaged"]), found["merging"] and _origin(found["merging"])
    return Header(name, packaged, merging or None), text[found.end() :]


def _first_edited(lines: list[str]) -> int:
    """The first line of the header that is not as it was written."""
    origin = r"\S+ sha256:[0-9a-f]{64}"
    forms = [re.escape(_FIRST) + r"\S+\.", f"    packaged: {origin}", f"    merging: {origin}"]
    for number, (form, line) in enumerate(zip(forms, lines, strict=False), 1):
        if not re.fullmatch(form, line):
            return number
    return min(len(forms) + 1, len(lines))


def _origin(text: str) -> Origin:
    version, _, checksum = text.partition(" sha256:")
    return Origin(version, checksum)
