"""The difference between two renders, and which differences are the same in many specs.

Knows texts; it must not know files, specs or clusters.
"""

from __future__ import annotations

import difflib
import hashlib
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

_NOT_RUN = ("manifest.json",)
_MAX_LINES = 60  # of an example
_MAX_WIDTH = 300
_CONTEXT = 2

# plan.json, which the job script writes into the job's folder: it has the version and checksums.
_PLAN_RECORD = r'\{"name": .*"spec": \{"file": .*"clusterjobs": '
# Above lines of a site's file, with its path (templates/job.sh.j2, blocks/inserted.sh.j2).
_ORIGIN = r" *# From .*:$"
_IGNORED = re.compile(f"{_PLAN_RECORD}|{_ORIGIN}")


class Difference(NamedTuple):
    """`key` is the same for the same change in other specs; `text` is a diff to be read."""

    key: str
    text: str


class _Hunk(NamedTuple):
    old: list[str]
    new: list[str]


def difference(
    before: Mapping[str, str], after: Mapping[str, str], names: Sequence[str] = ()
) -> Difference | None:
    """How the files that run differ; None if they do not.

    The manifest, the plan record, comments at a file's top and those that name a site's file do
    not run. `names` are words of the spec, such as its name: they do not distinguish one change
    from another.
    """
    files = [file for file in _in_order(before, after) if before.get(file) != after.get(file)]
    keys: list[str] = []
    texts: list[str] = []
    for file in files:
        old, new = _lines(before.get(file)), _lines(after.get(file))
        if old == new and (file in before) == (file in after):
            continue
        hunks, text = _compare(old, new)
        keys += [file, *(line for hunk in hunks for line in _normal(hunk, names))]
        texts += [f"--- {file if file in before else '/dev/null'}"]
        texts += [f"+++ {file if file in after else '/dev/null'}", *text]
    if not keys:
        return None
    digest = hashlib.sha256("\n".join(keys).encode(errors="surrogatepass")).hexdigest()
    return Difference(digest, _shortened(texts))


def _in_order(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """job.sh first: it is what people read."""
    names = {*before, *after} - set(_NOT_RUN)
    return sorted(names, key=lambda name: (name != "job.sh", name))


def _lines(text: str | None) -> list[str]:
    """The lines without the comments at the top, the plan record and the paths of a site."""
    lines = (text or "").split("\n")
    first = next((n for n, line in enumerate(lines) if line and line[0] != "#"), len(lines))
    header = [line for line in lines[:first] if line.startswith(("#!", "#SBATCH"))]
    return header + [line for line in lines[first:] if not _IGNORED.match(line)]


def _compare(old: list[str], new: list[str]) -> tuple[list[_Hunk], list[str]]:
    """The changed lines, and the same as a diff with some context."""
    first = _common(old, new)
    last = _common(old[first:][::-1], new[first:][::-1])
    start, end = max(0, first - _CONTEXT), max(0, last - _CONTEXT)
    a, b = old[start : len(old) - end], new[start : len(new) - end]
    matcher = difflib.SequenceMatcher(None, a, b)
    hunks = [
        _Hunk(a[i1:i2], b[j1:j2])
        for kind, i1, i2, j1, j2 in matcher.get_opcodes()
        if kind != "equal"
    ]
    return hunks, [
        line for group in matcher.get_grouped_opcodes(_CONTEXT) for line in _shown(group, a, b)
    ]


def _common(old: Sequence[str], new: Sequence[str]) -> int:
    """How many lines at the start are the same."""
    count = 0
    for a, b in zip(old, new, strict=False):
        if a != b:
            break
        count += 1
    return count


def _shown(
    group: Sequence[tuple[str, int, int, int, int]], old: list[str], new: list[str]
) -> Iterator[str]:
    yield "@@"
    for kind, i1, i2, j1, j2 in group:
        if kind == "equal":
            yield from (f" {line}" for line in old[i1:i2])
        else:
            yield from (f"-{line}" for line in old[i1:i2])
            yield from (f"+{line}" for line in new[j1:j2])


def _shortened(lines: list[str]) -> str:
    shown = [line if len(line) <= _MAX_WIDTH else f"{line[:_MAX_WIDTH]}..." for line in lines]
    more = len(shown) - _MAX_LINES
    return "\n".join([*shown[:_MAX_LINES], *([f"... {more} more lines"] if more > 0 else [])])


# ------------------------------------------------------------------ what makes two changes the same


def _normal(hunk: _Hunk, names: Sequence[str]) -> Iterator[str]:
    """The changed words of each line: the rest of the line may be the spec's own."""
    if len(hunk.old) == len(hunk.new):
        pairs = [_changed_words(*pair) for pair in zip(hunk.old, hunk.new, strict=True)]
    else:
        pairs = [("\n".join(hunk.old), "\n".join(hunk.new))]
    for old, new in pairs:
        yield elided(f"-{old}\n+{new}", names)


def _changed_words(old: str, new: str) -> tuple[str, str]:
    """Of both lines the words that differ, with the line's first word and the one before them."""
    a, b = old.split(), new.split()
    if a == b:  # only the spaces differ
        return old, new
    first = _common(a, b)
    last = _common(a[first:][::-1], b[first:][::-1])
    kept = [*a[:1], *a[max(1, first - 1) : first]] if first else []
    words = (kept + a[first : len(a) - last], kept + b[first : len(b) - last])
    return " ".join(words[0]), " ".join(words[1])


def elided(text: str, names: Sequence[str]) -> str:
    """The text with a placeholder for each of the names, where it is a whole word."""
    for number, name in enumerate(names):
        if not name or name not in text:
            continue  # most are in none, and each has a pattern of its own
        text = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-])", f"<{number}>", text)
    return text
