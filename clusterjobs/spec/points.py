"""The points of a sweep: their values, names and order."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple


class Point(NamedTuple):
    """One point of a sweep.

    `index` counts from 0 in the order of the spec. `name` is unique, and safe as a file name:
    `0007-lr=3e-4,micro=8-1a2b3c4d`; its last part is `digest`, 8 hex digits of the SHA-256 of
    `values`. `values`: the swept keys, as paths of the spec, and their values, as in `--set`.
    """

    index: int
    name: str
    digest: str
    values: Mapping[str, Any]
