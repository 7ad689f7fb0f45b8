"""Reads single values of any config; a value that cannot be read is unknown (None).

This module knows placeholders, and the forms of numbers and booleans that ParallelCluster accepts.
It must not know what any key means. Nothing here raises.
"""

from __future__ import annotations

import re
from typing import Any

# `<subnet>`, `${SUBNET}`, `{{ subnet }}`, and CloudFormation's `!Ref Subnet` as yaml_source
# passes it on. `{SUBNET}` is a YAML mapping, and therefore unknown.
_PLACEHOLDER = re.compile(r"<[^<>]*>|\$\{|\$\(|\{\{|\A!|\A[@%]")

_TRUE = frozenset(("true", "yes", "on", "t", "y", "1"))
_FALSE = frozenset(("false", "no", "off", "f", "n", "0"))


def at(value: Any, *keys: str) -> Any:
    """The value in nested mappings; None if one of them is missing or is not a mapping."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def items(value: Any) -> list[Any]:
    """The list, or an empty one for anything else."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """Text that is not a placeholder; a number (`CapacityType: 1`) becomes text."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    known = str(value)
    return known if known.strip() and not _PLACEHOLDER.search(known) else None


def placeholder(value: Any) -> str:
    """The placeholder that was not filled in, `${TYPE}` or `{TYPE}`; "" if there is none."""
    if isinstance(value, dict) and len(value) == 1 and None in value.values():
        return f"{{{next(iter(value))}}}"
    written = value.strip() if isinstance(value, str) and text(value) is None else ""
    return re.sub(r"\A< (.+) >\Z", r"{{ \1 }}", written)  # as `mask_placeholders` leaves it


def number(value: Any) -> int | None:
    """An integer, also as text: marshmallow's Int accepts "4"."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    known = text(value)
    return int(known) if known and re.fullmatch(r"\s*-?[0-9]{1,12}\s*", known) else None


def truth(value: Any) -> bool | None:
    """True or false, also as the words and numbers that marshmallow's Bool accepts."""
    known = str(value).strip().lower()
    return True if known in _TRUE else False if known in _FALSE else None


# ------------------------------------------------------------------ text that is no YAML yet

_TEMPLATE_LINE = re.compile(r"(?m)^([ \t]*)\{(%.*%\}[ \t]*)$")
_BARE_VALUE = re.compile(
    r"""(?m)^(?P<key>[ \t]*(?:-[ \t]+)*(?:[\w.-]+:[ \t]+)?)   # indentation, dash, key
        (?P<value>(?:\{\{|(?<=[ \t])[@%])[^\n\#]*?)           # {{ SUBNET }}, @SUBNET@, %SUBNET%
        (?P<rest>[ \t]*(?:\#.*)?)$""",
    re.VERBOSE,
)


def bare_references(source: str) -> list[tuple[int, str]]:
    """Unquoted values that start with `{{`, which YAML takes for a mapping: index and text."""
    found = _BARE_VALUE.finditer(source)
    return [(m.start("value"), m["value"]) for m in found if m["value"].startswith("{{")]


# A shell command that was copied with the config, or the end of a here-document.
_SHELL_LINE = re.compile(
    r"""(?m)^(?:\$[ ])?
        (?:(?:pcluster|aws|cat|sed|envsubst|echo|export|source|sudo)[ \t]
           [^:\n]*(?::[^ \n][^\n]*)?    # no `key: value`, but an ARN or a URL
        |EOF|EOT|EOL|END)[ \t]*$""",
    re.VERBOSE,
)


def shell_lines(source: str) -> list[tuple[int, str]]:
    """Lines of a shell at the left margin: index and text."""
    return [(found.start(), found[0]) for found in _SHELL_LINE.finditer(source)]


def template_lines(source: str) -> list[tuple[int, str]]:
    """Lines of a template, `{% for ... %}`: index and text."""
    return [(found.start(), found[0]) for found in _TEMPLATE_LINE.finditer(source)]


# `{MountDir: ${MOUNT}}`: in a flow, YAML takes its braces for a mapping
_FLOW_VALUE = re.compile(r"(?<=[ \t,\[])\$\{\w+\}(?=[ \t]*[,\]}])")


def bare_placeholders(source: str) -> list[tuple[int, str]]:
    """Unquoted placeholders that YAML cannot read: index and text."""
    found = [(m.start("value"), m["value"]) for m in _BARE_VALUE.finditer(source)]
    found += [(m.start(), m[0]) for m in _FLOW_VALUE.finditer(source)]
    return sorted([*found, *template_lines(source)])


def mask_placeholders(source: str) -> str:
    """The text with unquoted placeholders quoted, so that the rest can be read as YAML.

    Every character keeps its index: a quote takes the place of the first and last of each
    placeholder, whose own text does not matter. Lines of templates and shells become comments.
    """
    source = _TEMPLATE_LINE.sub(r"\1#\2", source)
    source = _SHELL_LINE.sub(lambda m: "#" + m[0][1:], source)
    source = _FLOW_VALUE.sub(lambda m: _quoted(m[0]), source)
    return _BARE_VALUE.sub(lambda m: m["key"] + _quoted(m["value"]) + m["rest"], source)


def _quoted(value: str) -> str:
    return "'<" + re.sub(r"['<>]", "_", value[2:-2]) + ">'" if len(value) > 3 else value
