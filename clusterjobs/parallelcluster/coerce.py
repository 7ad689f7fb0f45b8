"""Values of other people's configs, taken for what they are or else as unknown.

This layer knows what placeholders look like and which forms ParallelCluster accepts for a number
or a yes; it must not know what any key means. None is "unknown", and nothing here raises.
"""

from __future__ import annotations

import re
from typing import Any

# `<subnet>`, `${SUBNET}`, `{{ subnet }}`, and CloudFormation's `!Ref Subnet` as yaml_source
# hands it on. `{SUBNET}` is a YAML mapping and unknown for that reason.
_PLACEHOLDER = re.compile(r"<[^<>]*>|\$\{|\$\(|\{\{|\A!|\A[@%]")

_TRUE = frozenset(("true", "yes", "on", "t", "y", "1"))
_FALSE = frozenset(("false", "no", "off", "f", "n", "0"))


def at(value: Any, *keys: str) -> Any:
    """The value below nested mappings, None where one of them is missing or is no mapping."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def items(value: Any) -> list[Any]:
    """A list as it is, and anything else as an empty one."""
    return value if isinstance(value, list) else []


def text(value: Any) -> str | None:
    """Text that is no placeholder; a number (`CapacityType: 1`, an all-digit id) becomes text."""
    if isinstance(value, bool) or not isinstance(value, (str, int, float)):
        return None
    known = str(value)
    return known if known.strip() and not _PLACEHOLDER.search(known) else None


def placeholder(value: Any) -> str:
    """What stands where a value was to be filled in: `${TYPE}`, `{TYPE}`; "" where nothing does."""
    if isinstance(value, dict) and len(value) == 1 and None in value.values():
        return f"{{{next(iter(value))}}}"
    written = value.strip() if isinstance(value, str) and text(value) is None else ""
    return re.sub(r"\A< (.+) >\Z", r"{{ \1 }}", written)  # as masked below


def number(value: Any) -> int | None:
    """A whole number, also as text: marshmallow's Int takes "4" too."""
    if isinstance(value, int) and not isinstance(value, bool):
        return int(value)
    known = text(value)
    return int(known) if known and re.fullmatch(r"\s*-?[0-9]{1,12}\s*", known) else None


def truth(value: Any) -> bool | None:
    """True or false, also in the words and numbers that marshmallow's Bool takes."""
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


# A command that was copied along with the config, or the end of the here-document around it.
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
