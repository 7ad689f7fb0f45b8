"""Values drawn at random for a sweep: value number i of a key depends on seed, key and i alone.

So the same seed gives the same values on every machine and in every version, and more samples keep
the first ones.
"""

from __future__ import annotations

import decimal
import hashlib
import math
from collections.abc import Mapping
from typing import Any

from clusterjobs.yaml.syntax import number

_BITS = 53
_EXACT = decimal.Context(prec=40)  # logarithms of the C library differ between machines
_SIGNIFICANT = 4  # digits of a drawn number


def draw(wanted: Mapping[str, Any], seed: int, key: str, index: int) -> tuple[Any, int | None]:
    """Value number `index` of a key; for a choice, also the index of the item."""
    ((name, bounds),) = wanted.items()
    text = f"{seed}\n{key}\n{index}".encode()
    bits = int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> (64 - _BITS)
    if name == "choice":
        item = (bits * len(bounds)) >> _BITS
        return bounds[item], item
    low, high = bounds
    if name == "int_uniform":
        return number(str(low + ((bits * (high - low + 1)) >> _BITS))), None
    with decimal.localcontext(_EXACT):
        share = decimal.Decimal(bits) / 2**_BITS
        first, last = decimal.Decimal(float(low)), decimal.Decimal(float(high))
        if name == "log_uniform":
            first, last = first.ln(), last.ln()
        drawn = first + share * (last - first)
        found = float(drawn.exp() if name == "log_uniform" else drawn)
    printed = number(_printed(found))
    return (low if printed < low else high if printed > high else printed), None


def _printed(value: float) -> str:
    """With few digits, and without an exponent where programs may expect an integer."""
    text = f"{value:.{_SIGNIFICANT}g}"
    return str(math.trunc(float(text))) if "e+" in text else text
