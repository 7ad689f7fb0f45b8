"""Tables, numbers and texts as every output of a report shows them."""

import math
import unicodedata
from typing import NamedTuple


class Table(NamedTuple):
    """Texts in rows, with a title and sentences below.

    `notes`: sentences below the table; a table without rows has only these."""

    title: str
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()


_DIGITS = 4


def number(value: float, digits: int = _DIGITS) -> str:
    """`182,100`, `0.3598`, `1.5e-05`: so many significant digits, then zeros to the point."""
    if not math.isfinite(value):
        return "not a number" if math.isnan(value) else "infinite" if value > 0 else "-infinite"
    rounded = float(f"{value:.{digits}g}")
    if rounded and not 1e-4 <= abs(rounded) < 1e15:
        return f"{rounded:.{digits}g}"
    if abs(rounded) >= 10 ** (digits - 1):
        return f"{rounded:,.0f}"
    return f"{rounded:.{digits}g}"


def seconds(value: float) -> str:
    """The time of a step: `359.8 ms`, `12.34 s`."""
    is_short = float(f"{value:.{_DIGITS}g}") < 1 if math.isfinite(value) else False
    return f"{number(1000 * value)} ms" if is_short else f"{number(value)} s"


def duration(value: float) -> str:
    """A longer time, in the two largest units: `12 min 30 s`, `5 h 20 min`, `6 d 4 h`."""
    if not math.isfinite(value):
        return number(value)
    if float(f"{value:.2g}") < 60:
        return f"{number(value, 2)} s"
    for large, small, limit, unit in ((60, 1, 3600, "min s"), (3600, 60, 172_800, "h min")):
        if round(value / small) * small < limit:
            return _two(value, large, small, unit)
    return _two(value, 86_400, 3600, "d h")


def _two(value: float, large: int, small: int, unit: str) -> str:
    whole, rest = divmod(round(value / small), large // small)
    first, second = unit.split()
    return f"{whole} {first} {rest} {second}" if rest else f"{whole} {first}"


def share(value: float) -> str:
    """`36.1 %`. One digit after the point: no measured share is more exact."""
    if not math.isfinite(value):
        return number(value)
    return "< 0.1 %" if 0 < value < 0.0005 else f"{100 * value:.1f} %"


def loss(value: float) -> str:
    """`2.650`, so that values below one another can be compared."""
    return f"{value:.3f}" if 0.1 <= abs(value) < 1000 else number(value)


def dollars(value: float) -> str:
    return f"${value:,.0f}" if abs(value) >= 100 else f"${value:,.2f}"


def integer(value: float) -> str:
    return f"{value:,.0f}"


_INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}
_LONGEST = 500


def visible(text: str) -> str:
    """Text of logs and specs, for a page or a table; shortened if it is very long.

    Control characters and signs that turn the direction of writing are shown by their codes. HTML
    is not escaped.
    """
    cut = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
    return "".join(
        (f"\\x{ord(sign):02x}" if ord(sign) < 256 else f"\\u{ord(sign):04x}")
        if unicodedata.category(sign) in _INVISIBLE
        else sign
        for sign in cut
    )
