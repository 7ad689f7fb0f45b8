"""The type and value of a YAML scalar by two sets of rules.

"core" is YAML 1.2, for specs; "1.1" is PyYAML, for ParallelCluster's configs. Numbers keep the text
that they were written as. It must not know about nodes above the scalar.
"""

from __future__ import annotations

import re
from typing import Any, Literal

import yaml
from yaml.nodes import ScalarNode

Rules = Literal["core", "1.1"]


class WrittenInt(int):
    """An integer with the text it was written as (`0x10`, `007`)."""

    text: str


class WrittenFloat(float):
    """A float with the text it was written as (`1.5e-4`)."""

    text: str


_CORE_INT = re.compile(r"[-+]?[0-9]+$|0o[0-7]+$|0x[0-9a-fA-F]+$")
_CORE_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"
    r"|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)
_CORE_WORDS = {
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), "null"),
    **dict.fromkeys(("true", "True", "TRUE", "false", "False", "FALSE"), "bool"),
}
_NUMBER_STARTS = frozenset("0123456789+-.")
STANDARD_TAG = "tag:yaml.org,2002:"
TAG_NAMES = frozenset(("str", "int", "float", "bool", "null", "map", "seq", "merge", "timestamp"))


def core_kind(text: str) -> str:
    """By YAML 1.2."""
    if word := _CORE_WORDS.get(text):
        return word
    if text[0] in _NUMBER_STARTS:
        if _CORE_INT.match(text):
            return "int"
        if _CORE_FLOAT.match(text):
            return "float"
    return "str"


_legacy_resolver = yaml.resolver.Resolver()


def legacy_kind(text: str) -> str:
    """By YAML 1.1, as PyYAML does it."""
    tag: object = _legacy_resolver.resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    kind = str(tag).removeprefix(STANDARD_TAG)
    return kind if kind in TAG_NAMES else "str"


_legacy_constructor = yaml.constructor.SafeConstructor()
_LEGACY_CONSTRUCT = {
    "int": _legacy_constructor.construct_yaml_int,
    "float": _legacy_constructor.construct_yaml_float,
    "bool": _legacy_constructor.construct_yaml_bool,
}


def _core_int(text: str) -> int:
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    number = WrittenInt(text if base == 10 else text[2:], base)
    number.text = text
    return number


def _core_float(text: str) -> float:
    bare = text.lstrip("+-").lower()
    number = WrittenFloat(text.lower().replace(".", "") if bare in (".inf", ".nan") else text)
    number.text = text
    return number


def value_of(kind: str, node: ScalarNode, rules: Rules) -> Any:
    """An int, float or bool. Raises ValueError or KeyError if the text is not one."""
    text: str = node.value
    if rules == "1.1":
        return _LEGACY_CONSTRUCT[kind](node)
    if kind == "bool":
        return {"true": True, "false": False}[text.lower()]
    return _core_int(text) if kind == "int" else _core_float(text)


def number(text: str) -> Any:
    """A number as a spec would have it, written like this."""
    return _core_int(text) if core_kind(text) == "int" else _core_float(text)
