"""References `{{ name }}` in a parsed scalar, and marks for shell variables in a value.

The text between the braces is a dotted name or a quoted literal (`{{ '{{' }}` gives `{{`). It is
looked up, never evaluated. This module must not know what the names mean.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.errors import did_you_mean

Scalar = str | int | float | bool | None

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


def expand(value: str, lookup: Callable[[str], Scalar]) -> Scalar:
    """`value` with its references replaced by what they name.

    A value that is a single reference keeps the type of what it names; inside other text a
    reference becomes text. Raises BadReferenceError.
    """
    if _OPEN not in value:
        return value
    whole = _REFERENCE.fullmatch(value)
    if whole:
        return _resolve(whole, lookup)
    return _joined(_pieces(value, lookup))


MAX_CHARACTERS = 200_000  # longer than any value that a spec accepts


def _joined(pieces: Iterator[str]) -> str:
    kept: list[str] = []
    length = 0
    for piece in pieces:
        length += len(piece)
        if length > MAX_CHARACTERS:
            raise BadReferenceError(
                f"more than {MAX_CHARACTERS:,} characters after its references are expanded",
                "shorten it",
            )
        kept.append(piece)
    return "".join(kept)


def _pieces(value: str, lookup: Callable[[str], Scalar]) -> Iterator[str]:
    position = 0
    while (start := value.find(_OPEN, position)) >= 0:
        match = _REFERENCE.match(value, start)
        if match is None:
            raise _not_a_reference(value[start:])
        yield value[position:start]
        yield as_text(_resolve(match, lookup))
        position = match.end()
    yield value[position:]


def _not_a_reference(text: str) -> BadReferenceError:
    hint = "write {{ name }} for another value, or {{ '{{' }} for the braces themselves"
    if match := _BARE_DEFAULT.match(text):
        hint = f"write the default in quotes: default('{match[1]}')"
    return BadReferenceError(f"{text[:30]!r} is not a reference", hint)


def _resolve(match: re.Match[str], lookup: Callable[[str], Scalar]) -> Scalar:
    name, default = match["name"], match["default"]
    if name is not None:
        found = lookup(name)
        return found if default is None else _with_default(name, found, default[1:-1])
    return match["one"] if match["one"] is not None else match["two"]


def _with_default(name: str, found: Scalar, default: str) -> Scalar:
    """The mark of a node's variable with its default; a value that the spec sets stays as it is."""
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
    match = _VARIABLE.fullmatch(found) if isinstance(found, str) else None
    return variable(match[1], default=default) if match else found


def as_text(value: Scalar) -> str:
    """A scalar as it was written: `1.5e-4` stays `1.5e-4`, true is `true`, null is empty."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    return getattr(value, "text", None) or str(value)


def names_in(text: str) -> list[str]:
    """The names that the references in a text name, as they are written."""
    return [match["name"] for match in _REFERENCE.finditer(text) if match["name"]]


def look_up(name: str, values: Mapping[str, Any]) -> Scalar:
    """The scalar at the dotted `name` in nested `values`. Raises BadReferenceError."""
    found: Any = values
    for step in name.split("."):
        if not isinstance(found, Mapping) or step not in found:
            known = [str(key) for key in found] if isinstance(found, Mapping) else []
            raise BadReferenceError(f"{name} is not given", did_you_mean(step, known))
        found = found[step]
    if isinstance(found, (Mapping, list)):
        raise BadReferenceError(
            f"{name} is not a single value", f"write one of its values, {name}.x"
        )
    scalar: Scalar = found
    return scalar


# ------------------------------------------------------------------ shell variables in a value
#
# A value may contain a shell variable that the script sets (a parameter, the job's folder). NUL
# marks its name: YAML is refused if it contains one, so no other text has to be escaped.

_VARIABLE = re.compile("\0([A-Za-z_][A-Za-z0-9_]*)((?::[?=-][^\0]*)?)\0")


_PLAIN = re.compile(r"[\w @%+=:,./^-]*")


def variable(name: str, *, required: bool = False, default: str | None = None) -> str:
    """The mark for the shell variable `name`, to be embedded in a value.

    `required`: the job ends if it is unset or empty; with a `default`, that is used instead.
    """
    return f"\0{name}{':?' if required else '' if default is None else f':-{default}'}\0"


def has_variable(text: str) -> bool:
    """Whether the text contains a mark for a shell variable."""
    return "\0" in text


_NODE_VARIABLE = re.compile(r"\$\$\{|\$\{([A-Za-z_][A-Za-z0-9_]*)\}")


def expanding(text: str, default: str | None = None) -> str:
    """The text with a mark for each `${NAME}`, which the node expands; `$${` gives `${`.

    `default`: takes the place of a variable that is unset or empty.
    """
    return _NODE_VARIABLE.sub(
        lambda match: variable(match[1], default=default) if match[1] else "${", text
    )


def is_absolute(path: str) -> bool:
    """Whether a path is absolute, or starts with a variable, which is expected to make it so."""
    return path.startswith(("/", "${", "\0"))


def not_required(text: str) -> str:
    """The text without the condition that its variables are set."""
    return text.replace(":?\0", "\0")


class Variable(NamedTuple):
    """A shell variable in a value. `otherwise` is "", or bash's `:?` or `:-default`."""

    name: str
    otherwise: str


def split_variables(text: str) -> list[str | Variable]:
    """The pieces of a value in their order, without empty ones."""
    parts = _VARIABLE.split(text)
    pieces: list[str | Variable] = [parts[0]]
    for name, otherwise, text in zip(parts[1::3], parts[2::3], parts[3::3], strict=True):
        pieces += (Variable(name, otherwise), text)
    return [piece for piece in pieces if piece]


def split_marks(text: str) -> list[str]:
    """The text before the first mark, that mark, the text up to the next one, and so on."""
    return _MARK.split(text)


_MARK = re.compile("(\0[^\0]*\0)")


def variable_names(text: str) -> list[str]:
    """The names of the shell variables in a value."""
    return [match[1] for match in _VARIABLE.finditer(text)]


POINT_VARIABLES = ("point_name", "point_label", "point_index")
_OF_A_POINT = re.compile(f"\0(?:{'|'.join(POINT_VARIABLES)})\0")


def without_points(text: str, instead: str = "") -> str:
    """The text with the marks for the values of a sweep's point replaced."""
    return _OF_A_POINT.sub(instead, text)


def show(text: str) -> str:
    """The text for messages: variables as `$NAME`."""
    return _VARIABLE.sub(r"$\1", text)
