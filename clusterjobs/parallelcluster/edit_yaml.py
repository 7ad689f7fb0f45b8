"""Inserts entries into YAML text, each with a comment above it; all other text is kept.

This module knows block and flow style and indentation; it must not know what any key means.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import yaml

from clusterjobs.yaml.document import Document, Path


def insert_entry(
    document: Document, parent: Path, key: str, entry: Mapping[str, Any], comment: str
) -> str:
    """The text with `entry` as the last item of the list `key` below the map at `parent`."""
    holder = _value(document.value, parent)
    if key not in holder:
        return _new_key(document, parent, key, entry, comment)
    if not holder[key]:
        start, end = document.span((*parent, key))
        text = document.text[:start] + f" [{_flow(entry)}]" + document.text[end:]
        return _with_comment(text, start, comment)
    return _new_item(document, (*parent, key), entry, comment)


def _new_key(
    document: Document, parent: Path, key: str, entry: Mapping[str, Any], comment: str
) -> str:
    start, end = document.span(parent)
    if _opens(document.text, start, "{"):
        text = _before_bracket(document.text, end, f"{key}: [{_flow(entry)}]")
        return _with_comment(text, start, comment)
    indent = _indent(document.text, start)
    lines = [f"{indent}{key}:", *_block(entry, indent + "  ")]
    return _after_line(document.text, _end_of_last(document, parent), indent, comment, lines)


def _new_item(document: Document, path: Path, entry: Mapping[str, Any], comment: str) -> str:
    start, end = document.span(path)
    if _opens(document.text, start, "["):
        return _with_comment(_before_bracket(document.text, end, _flow(entry)), start, comment)
    indent = " " * (start - (document.text.rfind("\n", 0, start) + 1))
    lines = _block(entry, indent)
    return _after_line(document.text, _end_of_last(document, path), indent, comment, lines)


# ------------------------------------------------------------------ places in the text


def _value(data: Any, path: Path) -> Any:
    for step in path:
        data = data[step]
    return data


_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")


def _opens(text: str, start: int, brackets: str) -> bool:
    """Whether a flow collection starts there, after its anchor and tag."""
    found = _PROPERTIES.match(text, start)
    return text[found.end() if found else start] in brackets


def _indent(text: str, index: int) -> str:
    return " " * (index - (text.rfind("\n", 0, index) + 1))


def _end_of_last(document: Document, path: Path) -> int:
    """The end of the last scalar or flow below `path`: a block's own end is after its comments."""
    value = _value(document.value, path)
    start, end = document.span(path)
    if _opens(document.text, start, "[{") or not isinstance(value, (dict, list)) or not value:
        return end
    last = len(value) - 1 if isinstance(value, list) else list(value)[-1]
    return _end_of_last(document, (*path, last))


def _after_line(text: str, index: int, indent: str, comment: str, lines: list[str]) -> str:
    end = text.find("\n", index)
    head, tail = (text, "") if end < 0 else (text[:end], text[end:])
    return "\n".join([head.rstrip("\n"), f"{indent}# {comment}", *lines]) + (tail or "\n")


def _with_comment(text: str, index: int, comment: str) -> str:
    """The text with the comment on a line above the line of `index`."""
    start = text.rfind("\n", 0, index) + 1
    line = text[start:]
    indent = line[: len(line) - len(line.lstrip(" "))]
    return f"{text[:start]}{indent}# {comment}\n{line}"


def _before_bracket(text: str, end: int, new: str) -> str:
    """The text with `new` as the last entry of the flow that ends at `end`."""
    inner = text[: end - 1].rstrip()
    separator = "" if inner[-1] in "[{" else " " if inner[-1] == "," else ", "
    return f"{inner}{separator}{new}{text[end - 1 :]}"


# ------------------------------------------------------------------ entries as text


def _block(entry: Mapping[str, Any], indent: str) -> list[str]:
    dumped = yaml.safe_dump([dict(entry)], sort_keys=False, default_flow_style=None, width=1000)
    return [f"{indent}{line}" for line in dumped.rstrip("\n").split("\n")]


def _flow(entry: Mapping[str, Any]) -> str:
    dumped: str = yaml.safe_dump(
        dict(entry), sort_keys=False, default_flow_style=True, width=10_000
    )
    return dumped.rstrip("\n")
