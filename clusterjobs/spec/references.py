"""References `{{ name }}` in a parsed scalar.

The text between the braces is a dotted name or a quoted literal (`{{ '{{' }}` gives `{{`). It is
looked up, never evaluated.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, overload

from clusterjobs.errors import did_you_mean
from clusterjobs.text import ShellVariable, Text, Value, joined, show, variable

Scalar = str | int | float | bool | None
Expanded = Scalar | Text

_OPEN = "{{"
_REFERENCE = re.compile(
    r"""\{\{\s*(?:(?P<name>[A-Za-z_][\w-]*(?:\.[\w-]+)*)"""
    r"""(?:\s*\|\s*default\(\s*(?P<default>'[^']*'|"[^"]*")\s*\))?"""
    r"""|'(?P<one>[^']*)'|"(?P<two>[^"]*)")\s*\}\}"""
)
_BARE_DEFAULT = re.compile(r"\{\{\s*[\w.-]+\s*\|\s*default\(\s*([\w./-]+)\s*\)\s*\}\}")


class BadReferenceError(ValueError):
    """A `{{ }}` whose name is unknown, or that contains no name."""

    def __init__(self, what: str, hint: str = "") -> None:
        super().__init__(what)
        self.hint = hint


@overload
def expand(value: str, lookup: Callable[[str], Scalar]) -> Scalar: ...
@overload
def expand(value: str, lookup: Callable[[str], Expanded]) -> Expanded: ...
def expand(value: str, lookup: Callable[[str], Expanded]) -> Expanded:
    """`value` with its references replaced by what they name.

    A value that is a single reference keeps the type of what it names; inside other text a
    reference becomes text. Raises BadReferenceError.
    """
    if _OPEN not in value:
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole:
        return _resolve(whole, lookup)
    return joined(*_within_limit(_pieces(value, lookup)))


MAX_CHARACTERS = 200_000  # longer than any value that a spec accepts


def _within_limit(pieces: Iterator[Value]) -> Iterator[Value]:
    length = 0
    for piece in pieces:
        length += len(piece) if isinstance(piece, str) else len(show(piece))
        if length > MAX_CHARACTERS:
            raise BadReferenceError(
                f"more than {MAX_CHARACTERS:,} characters after its references are expanded",
                "shorten it",
            )
        yield piece


def _pieces(value: str, lookup: Callable[[str], Expanded]) -> Iterator[Value]:
    position = 0
    while (start := value.find(_OPEN, position)) >= 0:
        match = _REFERENCE.match(value, start)
        if match is None:
            raise _not_a_reference(value[start:])
        yield value[position:start]
        found = _resolve(match, lookup)
        yield found if isinstance(found, Text) else as_text(found)
        position = match.end()
    yield value[position:]


def _not_a_reference(text: str) -> BadReferenceError:
    hint = "write {{ name }} for another value, or {{ '{{' }} for the braces themselves"
    if match := _BARE_DEFAULT.match(text):
        hint = f"write the default in quotes: default('{match[1]}')"
    return BadReferenceError(f"{text[:30]!r} is not a reference", hint)


def _resolve(match: re.Match[str], lookup: Callable[[str], Expanded]) -> Expanded:
    name, default = match["name"], match["default"]
    if name is not None:
        found = lookup(name)
        return found if default is None else _with_default(name, found, default[1:-1])
    return match["one"] if match["one"] is not None else match["two"]


def _with_default(name: str, found: Expanded, default: str) -> Expanded:
    """A node's variable with its default; a value that the spec sets stays as it is."""
    if not name.startswith("env."):
        raise BadReferenceError(
            f"{name} needs no default: it is known", "only {{ env.NAME }} can have a default"
        )
    if not _PLAIN.fullmatch(default):  # bash has syntax for others, even inside double quotes
        raise BadReferenceError(
            f"the default {default!r} has other characters than letters, digits, blanks and "
            "_@%+=:,./^-",
            "write a plain word or path, or use a parameter",
        )
    whole = found.parts if isinstance(found, Text) else ()
    if len(whole) == 1 and isinstance(whole[0], ShellVariable):
        return variable(whole[0].name, default=default)
    return found


_PLAIN = re.compile(r"[\w @%+=:,./^-]*")


def as_text(value: Scalar) -> str:
    """A scalar as it was written: `1.5e-4` stays `1.5e-4`, true is `true`, null is empty.

    Raises TypeError for a value with references.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return getattr(value, "text", None) or str(value)


def names_in(text: str) -> list[str]:
    """The names that the references in a text name, as they are written."""
    return [match["name"] for match in _REFERENCE.finditer(text) if match["name"]]


def look_up(name: str, values: Mapping[str, Any]) -> Any:
    """The single value at the dotted `name` in nested `values`; items of a list count from 0.

    Raises BadReferenceError.
    """
    found: Any = values
    for step in name.split("."):
        if isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
            continue
        if not isinstance(found, Mapping) or step not in found:
            known = [str(key) for key in found] if isinstance(found, Mapping) else []
            raise BadReferenceError(f"{name} is not given", did_you_mean(step, known))
        found = found[step]
    if isinstance(found, (Mapping, list)):
        raise BadReferenceError(
            f"{name} is not a single value", f"write one of its values, {name}.x"
        )
    return found


_RANGE_OF_NODES = re.compile(r"([1-9]\d{0,5})(-([1-9]\d{0,5})?)?", re.ASCII)


def nodes_in_range(text: str) -> range | None:
    """The numbers of nodes in `4`, `2-7` or `8-`; None for other text."""
    match = _RANGE_OF_NODES.fullmatch(text)
    if match is None:
        return None
    last = int(match[3] or (1_000_000 if match[2] else match[1]))
    return range(int(match[1]), last + 1) or None
