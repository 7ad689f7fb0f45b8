"""Names of points: `0007-lr=3e-4,micro=8-1a2b3c4d`, unique and safe as names of files.

It knows values and their keys; it must not know how the points of a sweep are made.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from clusterjobs.spec.references import as_text

_MAX_LABEL = 60  # characters
_DIGITS = 4  # of the index
_UNSAFE = re.compile(r"[^A-Za-z0-9._=,+-]")
_OWN_VALUES = "spec"  # the label of a point that changes nothing


def canonical(value: Any) -> str:
    """Values as JSON: keys sorted, and numbers that are equal written equally."""
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and value.bit_length() > 10_000:  # Python prints no longer ones
        return hex(value)
    return value


def digests(points: Iterable[Mapping[str, Any]]) -> list[str]:
    """8 hex digits for the values of each point; different ones for different points."""
    found: dict[str, None] = {}
    for values in points:
        text = canonical(values)
        digest = _digest(text)
        while digest in found:  # 1 of 100 sweeps with 10,000 points
            digest = _digest(text + digest)
        found[digest] = None
    return list(found)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def names(points: Sequence[Mapping[str, Any]], of_points: Sequence[str]) -> list[str]:
    """The name of each point: index, values, digest."""
    words = _words({key for values in points for key in values})
    digits = max(_DIGITS, len(str(len(points) - 1)))
    return [
        f"{index:0{digits}}-{_label(values, words)}-{digest}"
        for index, (values, digest) in enumerate(zip(points, of_points, strict=True))
    ]


def _label(values: Mapping[str, Any], words: Mapping[str, str]) -> str:
    text = ",".join(f"{words[key]}={_shown(value)}" for key, value in values.items())
    return _UNSAFE.sub("_", text[:_MAX_LABEL]) or _OWN_VALUES


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(_shown, value))
    if isinstance(value, dict):
        return "+".join(f"{key}={_shown(item)}" for key, item in value.items())
    return as_text(value)


def _words(keys: set[str]) -> dict[str, str]:
    """The last word of each key; more of its words if another key has the same."""
    found: dict[str, str] = {}
    for key in keys:
        steps = key.split(".")
        others = [other.split(".") for other in keys if other != key]
        count = 2 if steps[-1].isdigit() else 1  # an item of a list
        while count < len(steps) and any(steps[-count:] == one[-count:] for one in others):
            count += 1
        found[key] = ".".join(steps[-count:])
    return found
