"""The variables of the templates: their fields, what each holds, and an example.

All of it is taken from the contexts of rendered jobs, so that no second list can differ from them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import NamedTuple

from clusterjobs.script.shell import (
    CommentText,
    Delimiter,
    ExpandingDocument,
    HereDocument,
    ShellText,
    TemplateName,
)

_EXAMPLE_WIDTH = 60
_EMPTY = ("", "''")  # poor examples


class Shape(NamedTuple):
    """What a variable holds.

    `kind`: see KINDS. `fields` of a record; `item` of a list, None if no list had one.
    `optional`: some jobs have nothing there, so that an {% if %} must come first.
    """

    kind: str
    fields: Mapping[str, Shape] = MappingProxyType({})
    item: Shape | None = None
    example: str = ""
    optional: bool = False


# Kind -> how a template uses it. The first type that fits names the kind of a text.
KINDS: Mapping[str, str] = {
    "text": "printed: words or lines that are quoted for bash",
    "number": "printed",
    "comment": "printed after a `#`",
    "here-document": "printed on a line of its own, in a here-document",
    "expanding here-document": "printed on a line of its own, in an unquoted here-document",
    "delimiter": "printed: the word that ends a here-document",
    "template": "{% include %}",
    "condition": "{% if %}",
    "list": "{% for %}",
    "record": "its fields",
}
PRINTED = ("text", "number", "comment", "here-document", "expanding here-document", "delimiter")
_TEXTS: tuple[tuple[type[ShellText], str], ...] = (
    (CommentText, "comment"),
    (HereDocument, "here-document"),
    (ExpandingDocument, "expanding here-document"),
    (Delimiter, "delimiter"),
    (TemplateName, "template"),
    (ShellText, "text"),
)


def shape_of(value: object) -> Shape:
    """The shape of one value of a context."""
    if isinstance(value, Mapping):
        return Shape("record", {name: shape_of(one) for name, one in value.items()})
    if isinstance(value, (list, tuple)):
        return Shape("list", item=_all(map(shape_of, value)))
    if value is None:
        return Shape("nothing", optional=True)
    if isinstance(value, bool):
        return Shape("condition", example=str(value).lower())
    if isinstance(value, int):
        return Shape("number", example=str(value))
    kind = next((name for kind, name in _TEXTS if isinstance(value, kind)), "unknown")
    return Shape(kind, example=_shortened(str(value)))


def merged(first: Shape, second: Shape) -> Shape:
    """The shape of a variable that has the one shape in one job and the other in another."""
    if "nothing" in (first.kind, second.kind):
        known = second if first.kind == "nothing" else first
        return known._replace(optional=True)
    names = dict.fromkeys([*first.fields, *second.fields])
    fields = {name: _merged(first.fields.get(name), second.fields.get(name)) for name in names}
    return Shape(
        first.kind if first.kind == second.kind else "text",
        {name: shape for name, shape in fields.items() if shape},
        _merged(first.item, second.item),
        second.example if first.example in _EMPTY else first.example,
        first.optional or second.optional,
    )


def _merged(first: Shape | None, second: Shape | None) -> Shape | None:
    return merged(first, second) if first and second else first or second


def _all(shapes: Iterator[Shape]) -> Shape | None:
    found: Shape | None = None
    for shape in shapes:
        found = _merged(found, shape)
    return found


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _EXAMPLE_WIDTH else line[: _EXAMPLE_WIDTH - 4] + " ..."


class Variable(NamedTuple):
    """A variable as a list of them shows it: `files.configs[].name`."""

    name: str
    kind: str
    example: str


def variables(shape: Shape, prefix: str = "", top: Shape | None = None) -> Iterator[Variable]:
    """All that can be used in a template below this record, in the order of its fields.

    Those of a record that `top` has, too, under the same name are listed there alone.
    """
    for name, one in shape.fields.items():
        full = f"{prefix}{name}"
        kind = f"{one.kind}, or nothing" if one.optional else one.kind
        item = one.item or Shape("nothing")
        if one.kind == "list":
            kind = f"list of {item.kind}s"
        if prefix or one.kind != "record" or one.optional:
            yield Variable(full, kind, one.example or item.example)
        if not (top and name in top.fields and one.kind == "record"):
            yield from variables(one, f"{full}.", top or shape)
            yield from variables(item, f"{full}[].", top or shape)
