"""Applies the safe changes to an older config's text, and leaves everything else as it was written.

This module knows text and positions. `deprecations.py` decides which changes are safe.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from clusterjobs.clusters.parallelcluster.detect import (
    find_config,
    load_config,
    shell_lines,
    template_lines,
)
from clusterjobs.clusters.parallelcluster.render_config import dump_scalar
from clusterjobs.errors import Location, Problem
from clusterjobs.validation.deprecations import Edit, deprecations, edited
from clusterjobs.validation.finding import Finding, problems
from clusterjobs.validation.own_checks import check_drivers
from clusterjobs.yaml.document import Document, Path

_SHELL = "this is a shell command, not part of the config"
_TEMPLATE = "this line of a template was not filled in"


@dataclass(frozen=True)
class Upgraded:
    """The new text, the changes in it, and the problems that a person has to decide.

    The locations in `changed` refer to the old text, those in `left` and `notes` to the new one.
    `notes` say what the changes mean for a cluster that exists.
    """

    text: str
    changed: tuple[Problem, ...]
    left: tuple[Problem, ...]
    notes: tuple[Problem, ...] = ()


def upgrade(source: str, file: str) -> Upgraded:
    """Apply the safe changes. Raises InputError if the text is not a config."""
    document = load_config(source, file)
    base = find_config(document)
    found = [(finding, edit) for finding, edit in deprecations(_data(document, base)) if edit]
    changed = problems(document, base, [finding for finding, _ in found])
    for _, edit in reversed(found):
        document = _apply(document, base, edit)
    text = document.text
    for index, line in reversed(shell_lines(text)):
        text = text[:index] + text[index + len(line) + 1 :]
    after = load_config(text, file)
    data = _data(after, base)
    left = [*(finding for finding, _ in deprecations(data)), *check_drivers(data)]
    notes = [_NEW_CLUSTER] if any(edit.path == _NEW_CLUSTER.path for _, edit in found) else []
    return Upgraded(
        text,
        (*changed, *shell_problems(source, file)),
        tuple(problems(after, base, left)),
        tuple(problems(after, base, notes)),
    )


# Image.Os has the update policy UNSUPPORTED in ParallelCluster 3.16.1.
_NEW_CLUSTER = Finding(
    "a cluster that exists keeps its operating system: this file is for a new cluster",
    ("Image", "Os"),
    "info",
    hint="pcluster create-cluster, and delete the old one when nothing on it is needed: its /home "
    "and its images are not taken along",
)


def shell_problems(source: str, file: str) -> list[Problem]:
    """Shell commands that were copied together with a config."""
    lines = shell_lines(source)
    return [Problem(_SHELL, _line(source, file, *one), hint="remove the line") for one in lines]


def template_problems(source: str, file: str) -> list[Problem]:
    """Lines of the template that a config is."""
    hint = "fill the template in first, and validate the result"
    lines = template_lines(source)
    return [Problem(_TEMPLATE, _line(source, file, *one), hint=hint) for one in lines]


def _line(source: str, file: str, index: int, line: str) -> Location:
    return Location(file, source.count("\n", 0, index) + 1, 1, line, len(line))


def _data(document: Document, base: Path) -> Any:
    data = document.value
    for step in base:
        data = data[step]
    return data


# ------------------------------------------------------------------ edits of the text


def _apply(document: Document, base: Path, edit: Edit) -> Document:
    """Apply one edit, and verify that the new text differs from the old data only by this edit."""
    path = (*base, *edit.path)
    expected = edited(document.value, path, edit)
    text = _EDITS[edit.kind](document, path, edit.new)
    result = load_config(text, document.file)
    if result.value != expected:
        raise AssertionError(f"{document.file}: {edit} changed something else")
    return result


def _set_value(document: Document, path: Path, new: str) -> str:
    start, end = document.span(path)
    written = document.text[start:end].rstrip()
    return document.text[:start] + dump_scalar(new) + document.text[start + len(written) :]


def _rename_key(document: Document, path: Path, new: str) -> str:
    start = _index_of_key(document, path)
    return document.text[:start] + new + document.text[start + len(str(path[-1])) :]


def _remove(document: Document, path: Path, _new: str) -> str:
    start = _index_of_key(document, path)
    text, end = document.text, _end(document, path)
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip():  # block style: the key is the first thing in its line
        newline = text.find("\n", end)
        return text[:line] + (text[newline + 1 :] if newline >= 0 else "")
    before, after = text[:start].rstrip(), text[end:].lstrip(" ")
    if after.startswith(","):
        return text[:start] + after[1:].lstrip(" ")
    return before.removesuffix(",") + text[end:]


_EDITS = {"value": _set_value, "key": _rename_key, "remove": _remove}


def _index_of_key(document: Document, path: Path) -> int:
    where = document.locate_key(path)
    lines = document.text.split("\n", where.line)[: where.line - 1]
    return sum(len(line) + 1 for line in lines) + where.column - 1


def _end(document: Document, path: Path) -> int:
    """The end of the value's last scalar or flow; the end of a block would include comments."""
    start, end = document.span(path)
    value = _data(document, path)
    if document.text[start : start + 1] in "[{" or not isinstance(value, (dict, list)) or not value:
        return start + len(document.text[start:end].rstrip())
    last = len(value) - 1 if isinstance(value, list) else list(value)[-1]
    return _end(document, (*path, last))
