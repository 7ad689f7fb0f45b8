"""The merged spec as text: the origin of each value, and YAML that loads to the same spec."""

import json
import re
from collections.abc import Iterator
from typing import Any, NamedTuple

from clusterjobs.console import printable
from clusterjobs.errors import InputError
from clusterjobs.spec.layers import Merged
from clusterjobs.spec.references import as_text
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Path, dotted


class Value(NamedTuple):
    """A single value of the merged spec. `origin`: `defaults.yaml:3` or `--set nodes=4`.

    `role`: default, base, spec or --set.
    """

    name: str
    value: Any
    origin: str
    role: str


def single_values(merged: Merged) -> Iterator[Value]:
    """All single values; of a mapping or a list those in it."""
    for path, value in _leaves(merged.data, ()):
        role = merged.source.origin(path).layer.role
        yield Value(dotted(path), value, _origin(merged, path), role)


def _leaves(value: Any, path: Path) -> Iterator[tuple[Path, Any]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, (*path, key))
    elif isinstance(value, list) and value:
        for index, item in enumerate(value):
            yield from _leaves(item, (*path, index))
    else:
        yield path, value


def _origin(merged: Merged, path: Path) -> str:
    return printable(merged.source.locate(path).line_in_file)


def shown_value(value: Any) -> str:
    """A single value on one line."""
    return printable(json.dumps(value) if isinstance(value, (dict, list)) else _scalar(value))


# ------------------------------------------------------------------ YAML


def effective_yaml(merged: Merged) -> str:
    """The merged spec as YAML, with the origin of every value in a comment.

    Lists that layers add to are written as replacements: it loads to the same spec with and without
    the layers below it.
    """
    rows = list(_mapping(merged, merged.data, (), 0))
    width = max((len(text) for text, origin in rows if origin and len(text) < _WIDE), default=0)
    return "".join(
        f"{text.ljust(width)}  # {origin}\n" if origin else f"{text}\n" for text, origin in rows
    )


_WIDE = 60
_Row = tuple[str, str]  # a line, and the origin of the value in it


def _mapping(merged: Merged, data: dict[str, Any], path: Path, depth: int) -> Iterator[_Row]:
    for key, value in data.items():
        inner = (*path, key)
        start = f"{'  ' * depth}{_scalar(key)}:"
        if inner in merged.added:
            yield start, ""
            yield from _entry(merged, f"{'  ' * (depth + 1)}replace:", value, inner, depth + 1)
        else:
            yield from _entry(merged, start, value, inner, depth)


def _entry(merged: Merged, start: str, value: Any, path: Path, depth: int) -> Iterator[_Row]:
    """`value` after `start`, which is a key, or the dash of a list's item."""
    if isinstance(value, (dict, list)) and value:
        yield start, ""
        if isinstance(value, dict):
            yield from _mapping(merged, value, path, depth + 1)
        else:
            yield from _list(merged, value, path, depth + 1)
    elif isinstance(value, str) and (block := _block(value)):
        yield f"{start} {block[0]}", _origin(merged, path)
        yield from ((f"{'  ' * (depth + 1)}{line}".rstrip(), "") for line in block[1:])
    else:
        shown = json.dumps(value) if isinstance(value, (dict, list)) else _scalar(value)
        yield f"{start} {shown}", _origin(merged, path)


def _list(merged: Merged, items: list[Any], path: Path, depth: int) -> Iterator[_Row]:
    for index, item in enumerate(items):
        yield from _entry(merged, f"{'  ' * depth}-", item, (*path, index), depth)


_NOT_PRINTABLE = re.compile("[\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")


def _scalar(value: Any) -> str:
    """A scalar that our YAML reads as the same value."""
    if not isinstance(value, str):
        return "null" if value is None else as_text(value)
    if _PLAIN.fullmatch(value) and _loads_to(f"{value}: {value}", {value: value}):
        return value
    quoted = json.dumps(value, ensure_ascii=False)
    return _NOT_PRINTABLE.sub(lambda found: f"\\u{ord(found[0]):04x}", quoted)


_PLAIN = re.compile(r"[\w/.][\w ./@%+=:,-]*")


def _block(text: str) -> list[str]:
    """A text of several lines as YAML's block, without its indent; empty if it must be quoted."""
    lines = text.removesuffix("\n").split("\n")
    if "\n" not in text or any(line != line.rstrip() for line in lines):
        return []
    block = ["|" if text.endswith("\n") else "|-", *lines]
    whole = "\n ".join([f"key: {block[0]}", *lines]) + "\n"
    return block if _loads_to(whole, {"key": text}) else []


def _loads_to(yaml: str, value: Any) -> bool:
    try:
        return bool(yaml_document.load(yaml, "").value == value)
    except InputError:
        return False
