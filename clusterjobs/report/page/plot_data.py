"""The curves as JSON, for the script of the page: small, and inert inside HTML.

It knows curves and the page's budget of points; it must not know HTML.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from clusterjobs.report.page.curves import Plot
from clusterjobs.report.page.points import thin
from clusterjobs.report.visible import visible

_MOST_POINTS = 2_000  # of one curve: about one for each pixel of a wide screen
_FEWEST_POINTS = 60
_ALL_POINTS = 36_000  # of the page, which must stay below 1 MB


def plot_data(plots: Sequence[Plot], runs: int) -> str:
    """JSON without a character that means something in HTML."""
    curves = sum(len(plot.curves) for plot in plots)
    limit = max(_FEWEST_POINTS, min(_MOST_POINTS, _ALL_POINTS // max(1, curves)))
    data = {"runs": runs, "plots": [_plot(plot, limit) for plot in plots]}
    text = json.dumps(data, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _plot(plot: Plot, limit: int) -> dict[str, Any]:
    return {
        "id": plot.quantity,
        "unit": plot.unit,
        "log": plot.logarithmic,
        "marks": [list(mark) for mark in plot.marks],
        "curves": [
            {
                "name": visible(curve.name),
                "colour": curve.colour,
                "style": curve.style,
                "x": thinned.steps,
                "y": [_short(value) for value in thinned.values],
                "low": [_short(value) for value in thinned.low],
                "high": [_short(value) for value in thinned.high],
            }
            for curve in plot.curves
            for thinned in [thin(curve.points, limit)]
        ],
    }


def _short(value: float | None) -> float | int | None:
    """Five digits, which no screen can show more of."""
    if value is None:
        return None
    short = float(f"{value:.5g}")
    return int(short) if short.is_integer() and abs(short) < 1e15 else short
