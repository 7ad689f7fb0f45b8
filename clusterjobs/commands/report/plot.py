"""A curve in the terminal, in braille characters or in plain ASCII."""

from __future__ import annotations

import math
from collections.abc import Sequence

from clusterjobs.report.numbers import integer, number

WIDTH, HEIGHT = 60, 8  # characters; a braille character has 2 x 4 dots
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # row, column -> its bit

Point = tuple[int, float]


def plot(points: Sequence[Point], as_braille: bool) -> list[str]:
    """The lines of a curve of (step, value), with its axes; nothing for fewer than two points."""
    points = [one for one in points if math.isfinite(one[1])]
    if len(points) < 2:
        return []
    across, down = (2, 4) if as_braille else (1, 1)
    least, most = min(value for _, value in points), max(value for _, value in points)
    first, last = points[0][0], points[-1][0]
    cells = [[0] * WIDTH for _ in range(HEIGHT)]
    for step, value in points:
        x = _place(step, first, last, WIDTH * across)
        y = HEIGHT * down - 1 - _place(value, least, most, HEIGHT * down)
        cells[y // down][x // across] |= _DOTS[y % down][x % across]
    mark = (lambda bits: chr(0x2800 + bits)) if as_braille else (lambda bits: "*" if bits else " ")
    rows = ["".join(map(mark, row)).rstrip("\u2800 ") for row in cells]
    labels = [number(most), *[""] * (HEIGHT - 2), number(least)]
    margin = max(map(len, labels))
    lines = [f"{label:>{margin}} |{row}" for label, row in zip(labels, rows, strict=True)]
    start, end = integer(first), f"step {integer(last)}"
    return [*lines, f"{'':>{margin}}  {start}{end:>{WIDTH - len(start)}}"]


def _place(value: float, least: float, most: float, cells: int) -> int:
    share = (value - least) / (most - least) if most > least else 0.5
    return min(cells - 1, max(0, int(share * cells)))
