"""Merges two changed copies of a text, line by line, and marks the lines that both have changed."""

import difflib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterjobs.errors import Location, Problem


class Names(NamedTuple):
    """What the conflict markers call the three texts."""

    ours: str
    base: str
    theirs: str


class Merged(NamedTuple):
    """The merged text, and the number of conflicts that are marked in it."""

    text: str
    conflicts: int


class _Edit(NamedTuple):
    """Lines `start` to `end` of the base are replaced by `lines`."""

    start: int
    end: int
    lines: Sequence[str]


class _Region(NamedTuple):
    """Lines of the base that edits touch: `edits` are those of ours and those of theirs."""

    start: int
    end: int
    edits: tuple[list[_Edit], list[_Edit]]

    def changed_by(self, side: int, base: Sequence[str]) -> list[str]:
        """The lines of this region after the edits of one side."""
        lines, position = [], self.start
        for edit in self.edits[side]:
            lines += [*base[position : edit.start], *edit.lines]
            position = edit.end
        return [*lines, *base[position : self.end]]


def merge(base: str, ours: str, theirs: str, names: Names) -> Merged:
    """Merge both changes into one text. Changes of the same or of adjacent lines are a conflict."""
    old = base.splitlines(keepends=True)
    edits = [_edits(old, text.splitlines(keepends=True)) for text in (ours, theirs)]
    merged: list[str] = []
    position = conflicts = 0
    for region in _regions(*edits):
        was = list(old[region.start : region.end])
        mine, other = (region.changed_by(side, old) for side in (0, 1))
        merged += old[position : region.start]
        position = region.end
        if was == mine or mine == other:
            merged += other
        elif was == other:
            merged += mine
        else:
            conflicts += 1
            merged += _conflict(mine, was, other, names)
    return Merged("".join([*merged, *old[position:]]), conflicts)


def _edits(base: list[str], changed: list[str]) -> list[_Edit]:
    matcher = difflib.SequenceMatcher(None, base, changed, autojunk=False)
    return [
        _Edit(start, end, changed[first:last])
        for tag, start, end, first, last in matcher.get_opcodes()
        if tag != "equal"
    ]


def _regions(ours: list[_Edit], theirs: list[_Edit]) -> Iterator[_Region]:
    """Edits that touch each other, together. An edit of one side alone is a region, too."""
    sided = sorted((*edit[:2], side, edit) for side, of in enumerate((ours, theirs)) for edit in of)
    region: _Region | None = None
    for start, end, side, edit in sided:
        if region is None or start > region.end:
            if region:
                yield region
            region = _Region(start, end, ([], []))
        region = region._replace(end=max(region.end, end))
        region.edits[side].append(edit)
    if region:
        yield region


def _conflict(ours: list[str], base: list[str], theirs: list[str], names: Names) -> Iterator[str]:
    """The three versions between markers, as git writes them with merge.conflictStyle=diff3."""
    for marker, lines in (
        (f"<<<<<<< {names.ours}\n", ours),
        (f"||||||| {names.base}\n", base),
        ("=======\n", theirs),
    ):
        yield marker
        yield from lines
        if lines and not lines[-1].endswith("\n"):
            yield "\n"
    yield f">>>>>>> {names.theirs}\n"


_MARKER = re.compile(r"(?m)^(?:<{7} |\|{7} |={7}$|>{7} ).*$")


def marker_problems(text: str, file: str) -> list[Problem]:
    """A problem for each conflict that is still marked in the text."""
    markers = list(_MARKER.finditer(text))
    first = [found for found in markers if found[0].startswith("<")]
    return [
        Problem(
            "a conflict of a merge is not resolved",
            Location(file, text.count("\n", 0, found.start()) + 1, 1, found[0], len(found[0])),
            hint="choose one of the versions between the markers, remove the markers, and run "
            "`clusterjobs templates update`",
        )
        for found in first or markers[:1]
    ]
