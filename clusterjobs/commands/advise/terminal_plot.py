"""Time against cost in the terminal: a grid of characters, the Pareto front as letters."""

from __future__ import annotations

import math
from collections.abc import Sequence

from clusterjobs.commands.advise.options import layout_text
from clusterjobs.commands.foresight.text import number
from clusterjobs.foresight.ranking import Candidate, pareto_front

WIDTH, HEIGHT = 64, 16
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NO_PRICES = "no Pareto plot: no price is known; site.yaml can give prices"


def terminal_plot(candidates: Sequence[Candidate]) -> str:
    """Both axes are logarithmic. A dot is a layout, a letter one that no other beats in both."""
    priced = [one for one in candidates if one.usd]
    if not priced:
        return NO_PRICES
    front = pareto_front(priced)[: len(LETTERS)]
    x = _Axis([one.seconds for one in priced], WIDTH)
    y = _Axis([one.usd or 0.0 for one in priced], HEIGHT)
    grid = [[" "] * WIDTH for _ in range(HEIGHT)]
    for one in priced:
        grid[y.cell(one.usd or 0.0)][x.cell(one.seconds)] = "."
    for letter, one in reversed([*zip(LETTERS, front, strict=False)]):
        grid[y.cell(one.usd or 0.0)][x.cell(one.seconds)] = letter
    rows = ["".join(row).rstrip() for row in reversed(grid)]
    labels = [f"${number(y.most)}", *[""] * (HEIGHT - 2), f"${number(y.least)}"]
    margin = max(map(len, labels))
    lines = [f"{label:>{margin}} |{row}" for label, row in zip(labels, rows, strict=True)]
    lines.append(f"{'':>{margin}} +{'-' * WIDTH}")
    ends = f"{number(x.least)} s", f"{number(x.most)} s a step"
    lines.append(f"{'':>{margin}}  {ends[0]}{ends[1]:>{WIDTH - len(ends[0])}}")
    for letter, one in zip(LETTERS, front, strict=False):
        where = f"{one.where}, {one.nodes} nodes"
        lines.append(
            f"  {letter}  {number(one.seconds)} s, ${number(one.usd or 0.0)}: {where}, "
            f"{layout_text(one.layout)}"
        )
    return "\n".join(lines)


class _Axis:
    def __init__(self, values: Sequence[float], cells: int) -> None:
        self.least, self.most, self._cells = min(values), max(values), cells

    def cell(self, value: float) -> int:
        span = math.log(self.most / self.least)
        share = math.log(value / self.least) / span if span else 0.0
        return min(self._cells - 1, int(share * self._cells))
