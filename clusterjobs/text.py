"""Values of a spec that hold references, as tuples of literals and references.

A value without references is a plain `str`. `script/shell.py` alone makes shell text of a `Text`;
everything else that would print one is an error, so that no reference is lost.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, NoReturn, TypeAlias


class ShellVariable(NamedTuple):
    """A variable of the shell that runs the job.

    `required`: the job ends if it is unset or empty; with a `default`, that is used instead.
    """

    name: str
    required: bool = False
    default: Value | None = None


class DerivedValue(NamedTuple):
    """A value that the plan derives, such as `world_size`; the plan puts it in place."""

    name: str


Reference: TypeAlias = ShellVariable | DerivedValue


class Text:
    """Literals and at least one reference; no literal is empty or follows another.

    `joined` makes it. It has those methods of `str` that look at literals alone.
    """

    __slots__ = ("parts",)

    def __init__(self, parts: tuple[str | Reference, ...]) -> None:
        self.parts = parts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Text) and self.parts == other.parts

    def __hash__(self) -> int:
        return hash(self.parts)

    def __repr__(self) -> str:
        return f"Text({self.parts!r})"

    def __str__(self) -> NoReturn:
        raise TypeError(f"{self.parts!r} has references: write joined(), or show() for a message")

    def __format__(self, _spec: str) -> NoReturn:
        self.__str__()

    def startswith(self, start: str | tuple[str, ...]) -> bool:
        """True if the first part is a literal that starts so."""
        first = self.parts[0]
        return isinstance(first, str) and first.startswith(start)


Value: TypeAlias = str | Text


def joined(*parts: Value | Reference) -> Value:
    """The parts in this order: a `str` if none of them is a reference."""
    found: list[str | Reference] = []
    for part in parts:
        for one in part.parts if isinstance(part, Text) else (part,):
            if isinstance(one, str) and found and isinstance(found[-1], str):
                found[-1] += one
            elif one != "":
                found.append(one)
    if not found:
        return ""
    return found[0] if len(found) == 1 and isinstance(found[0], str) else Text(tuple(found))


def parts_of(value: Value) -> tuple[str | Reference, ...]:
    """The literals and references of a value; none of an empty one."""
    if isinstance(value, Text):
        return value.parts
    return (value,) if value else ()


def references(value: Value) -> tuple[Reference, ...]:
    """The references of a value, in their order."""
    return tuple(one for one in parts_of(value) if not isinstance(one, str))


def literals(value: Value) -> list[str]:
    """What is before, between and after the references: one more than these, some empty."""
    found = [""]
    for one in parts_of(value):
        if isinstance(one, str):
            found[-1] += one
        else:
            found.append("")
    return found


def variable(name: str, *, required: bool = False, default: Value | None = None) -> Text:
    """The value of the shell variable `name` alone."""
    return Text((ShellVariable(name, required, default),))


def replaced(
    value: Value,
    reference: Callable[[Reference], Value | Reference] = lambda one: one,
    literal: Callable[[str], Value] = lambda one: one,
) -> Value:
    """The value with other references, and other literals."""
    return joined(
        *(literal(one) if isinstance(one, str) else reference(one) for one in parts_of(value))
    )


def split_text(value: Value, split: Callable[[str], Iterable[str]]) -> list[Value]:
    """The pieces into which `split` divides the value, each with its references.

    For `split`, a character that occurs nowhere in the value takes the place of each reference.
    """
    if isinstance(value, str):
        return list(split(value))
    shown = show(value)
    free = (one for one in map(chr, range(0xF0000, 0x10FFFE)) if one not in shown)
    signs = {next(free): one for one in references(value)}
    text = "".join(map("".join, itertools.zip_longest(literals(value), signs, fillvalue="")))
    pattern = re.compile(f"([{''.join(signs)}])")
    return [joined(*(signs.get(one, one) for one in pattern.split(piece))) for piece in split(text)]


def changed(value: Value, change: Callable[[str], str]) -> Value:
    """`change` of the value, as in `split_text`."""
    return split_text(value, lambda text: (change(text),))[0]


def without_slash(path: Value) -> Value:
    """The path without slashes at its end."""
    return changed(path, lambda text: text.rstrip("/"))


def join(sign: str, values: Iterable[Value]) -> Value:
    pieces = [piece for value in values for piece in (sign, value)]
    return joined(*pieces[1:])


def partition(value: Value, sign: str) -> tuple[Value, str, Value]:
    """What is before the first `sign`, the sign or "", and what follows: as str.partition."""
    before, found, after = split_text(value, lambda text: text.partition(sign))
    return before, sign if found else "", after


def variable_names(value: Any) -> list[str]:
    """The names of the variables in a value; none in what is not text."""
    parts = value.parts if isinstance(value, Text) else ()
    return [_name(one) for one in parts if not isinstance(one, str)]


def _name(reference: Reference) -> str:
    return reference.name.replace(".", "_")


def show(value: Value | float) -> str:
    """The value for messages: variables as `$NAME`."""
    if not isinstance(value, Text):
        return str(value)
    return "".join(one if isinstance(one, str) else f"${_name(one)}" for one in value.parts)


# ------------------------------------------------------------------ what the node expands
#
# In paths and in `env`: `${NAME}`, `${NAME:-default}`, and `~` at the start. `$$` stands for a
# dollar that would be read as the start of these, or of what is refused: `$$HOME`, `$$(date)`.

_VARIABLE_NAME = r"[A-Za-z_][A-Za-z0-9_]*"
_DEFAULT = rf"(?:[\w @%+=:,./^~-]|\$\{{{_VARIABLE_NAME}\}})*"
IN_CAPITALS = r"[A-Z_][A-Z0-9_]+\b"  # a price such as $5 is no variable
NODE_VARIABLE = re.compile(
    rf"\$\$(?P<escaped>[{{(]|{IN_CAPITALS})"
    rf"|\$\{{(?P<name>{_VARIABLE_NAME})(?P<given>:-(?P<default>{_DEFAULT}))?\}}"
)
_HOME = re.compile(r"~(?=/|\Z)")

# The script or Slurm sets them in every job.
_ALWAYS_SET = (
    *("HOME", "USER", "PWD", "UID", "EUID"),
    *("SLURM_JOB_ID", "SLURM_SUBMIT_DIR", "SLURMD_NODENAME"),
)


def expanding(value: Value, default: str | None = None, *, may_be_unset: bool = False) -> Value:
    """The value with a reference for each variable that the node expands.

    The job ends as `not_started` where a variable without a default is unset or empty, unless it
    `may_be_unset`. `default`: takes the place of such a variable.
    """

    def reference(found: re.Match[str]) -> Value:
        if found["escaped"]:
            return f"${found['escaped']}"
        name = found["name"]
        if found["given"]:
            own = expanding(found["default"], default, may_be_unset=may_be_unset)
            return variable(name, default=own)
        required = default is None and not may_be_unset and name not in _ALWAYS_SET
        return variable(name, required=required, default=default)

    def parts(literal: str) -> Value:
        if "$" not in literal:
            return literal
        pieces: list[Value] = []
        position = 0
        for found in NODE_VARIABLE.finditer(literal):
            pieces += (literal[position : found.start()], reference(found))
            position = found.end()
        return joined(*pieces, literal[position:])

    first, *rest = parts_of(value) or ("",)
    if isinstance(first, str) and _HOME.match(first):
        value = joined(variable("HOME"), first[1:], *rest)
    return parts(value) if isinstance(value, str) else replaced(value, literal=parts)


def is_rooted(path: Value) -> bool:
    """True if a path starts with / or a variable, which is expected to make it absolute."""
    return path.startswith("/") or (isinstance(path, Text) and not isinstance(path.parts[0], str))


def is_absolute(path: Value) -> bool:
    """Whether a path is absolute whose variables and `~` have not been expanded."""
    return is_rooted(path) or path.startswith(("${", "~"))


def file_name(path: Value) -> Value:
    return split_text(path, lambda text: text.rpartition("/"))[2]


def not_required(value: Value) -> Value:
    """The value without the condition that its variables are set."""
    return replaced(
        value,
        lambda one: one._replace(required=False) if isinstance(one, ShellVariable) else one,
    )


POINT_VARIABLES = ("point_name", "point_label", "point_index")


def without_points(value: Value, instead: str = "") -> Value:
    """The value with `instead` of the references to a sweep's point."""
    own = [ShellVariable(name) for name in POINT_VARIABLES]
    return replaced(value, lambda one: instead if one in own else one)


def marked(value: object) -> str:
    """The text that stands for a value in content hashes; for json.dumps(default=...).

    Jobs and points have recorded hashes in which NUL characters surround a reference, and a
    finished point with another hash would run again.
    """
    if not isinstance(value, Text):
        return str(value)
    return "".join(one if isinstance(one, str) else _mark(one) for one in value.parts)


def _mark(reference: Reference) -> str:
    if isinstance(reference, DerivedValue):
        return f"\0{_name(reference)}:=\0"
    default = "" if reference.default is None else f":-{marked(reference.default)}"
    return f"\0{reference.name}{':?' if reference.required else default}\0"
