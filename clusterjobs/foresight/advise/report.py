"""Advice as text and as data."""

from __future__ import annotations

import math
import pathlib
import shlex
from collections.abc import Sequence
from typing import Any, NamedTuple

from clusterjobs.console.show import printable, table
from clusterjobs.counted import counted
from clusterjobs.errors import one_problem
from clusterjobs.foresight.advise.options import STEPS_OF_A_PRICE, Found, Option, layout_text
from clusterjobs.foresight.foresee import range_data, rounded
from clusterjobs.foresight.formulas.layouts import RuledOut
from clusterjobs.foresight.formulas.ranking import TIE, Candidate, pareto_front
from clusterjobs.foresight.job import ForeseenJob
from clusterjobs.foresight.text import VERDICTS, between, hours, number

SHOWN_RULES = 6


class Advice(NamedTuple):
    """The answer of `advise`. `refused`: layouts that the spec's own checks refuse, and why.

    `point`: the point of a sweep that was ranked, "" without a sweep.
    """

    job: ForeseenJob
    by_cost: bool
    found: Found
    options: list[Option]
    refused: list[tuple[Candidate, str]]
    no_prices: list[str]
    point: str = ""


def advice_text(advice: Advice) -> str:
    """The options, what to set for the best, and what was ruled out."""
    job = advice.job
    head = f"{counted(advice.found.tried, 'layout')} tried; unchanged: global batch "
    head += f"{job.layout.global_batch}, precision {job.layout.precision}, {job.layout.engine}"
    if advice.point:
        head += f"\nthe first point of the sweep: {printable(advice.point)}"
    parts = [head, _options_table(advice), _ties(advice), _settings(advice)]
    parts += [_ruled_out(advice), "\n".join(advice.no_prices)]
    return "\n\n".join(filter(None, parts))


def _options_table(advice: Advice) -> str:
    several = len({one.candidate.where for one in advice.options}) > 1
    length = "time" if advice.job.length else f"{STEPS_OF_A_PRICE:,} steps"
    head = [
        "",
        "layout",
        *(["where"] if several else []),
        "nodes",
        "step",
        length,
        "cost",
        "memory",
    ]
    rows = [[*head, "why"]]
    for rank, one in enumerate(advice.options, 1):
        cost = f"${one.cost.usd.mid:,.0f}" if one.cost else "?"
        memory = f"{VERDICTS[one.memory.verdict]} {one.candidate.share:.0%}"
        rows.append(
            [
                f"{rank}{'=' if one.is_tie else ''}",
                layout_text(one.layout),
                *([one.node_option.name] if several else []),
                str(one.candidate.nodes),
                between(one.speed.step_seconds, "s"),
                hours(one.seconds),
                cost,
                memory,
                one.why,
            ]
        )
    return table([[printable(cell) for cell in row] for row in rows])


def _ties(advice: Advice) -> str:
    tied = sum(one.is_tie for one in advice.options)
    if tied < 2:
        return ""
    error = f"{TIE:.0%}"
    return (
        f"1= to {tied}= are within {error}, the model's error: they are a tie, and the simplest "
        "comes first. clusterjobs calibrate measures one of them."
    )


def _settings(advice: Advice) -> str:
    if not advice.options:
        return ""
    best = advice.options[0]
    if not best.settings:
        return "the spec has the first layout already"
    words = [f"--set {shlex.quote(one.written())}" for one in best.settings]
    return "for the first:\n  " + printable(" ".join(words))


def _ruled_out(advice: Advice) -> str:
    lines = [f"  {why}: {names}" for why, names in _grouped(advice.found.ruled_out)]
    if advice.found.too_large:
        least = advice.found.smallest_share
        count = counted(advice.found.too_large, "layout")
        lines.append(f"  does not fit: {count}; the smallest needs {least:.0%} of a GPU's memory")
    reasons = dict.fromkeys(why for _, why in advice.refused)
    lines += [f"  refused by the spec's own checks: {why}" for why in reasons]
    return "ruled out:\n" + "\n".join(lines) if lines else ""


def _grouped(ruled: Sequence[RuledOut]) -> list[tuple[str, str]]:
    """The reasons, each with the first few things that it rules out."""
    groups: dict[str, list[str]] = {}
    for one in ruled:
        groups.setdefault(one.why, []).append(one.what)
    found = []
    for why, names in groups.items():
        more = f" and {len(names) - SHOWN_RULES} more" if len(names) > SHOWN_RULES else ""
        found.append((why, ", ".join(names[:SHOWN_RULES]) + more))
    return found


# ------------------------------------------------------------------ data


def advice_data(advice: Advice) -> dict[str, Any]:
    """Names and structure are stable across versions."""
    groups: dict[str, list[str]] = {}
    for one in advice.found.ruled_out:
        groups.setdefault(one.why, []).append(one.what)
    layout = advice.job.layout
    return {
        "by": "cost" if advice.by_cost else "time",
        "point": advice.point or None,
        "unchanged": {"global_batch": layout.global_batch, "precision": layout.precision},
        "tried": advice.found.tried,
        "does_not_fit": advice.found.too_large,
        "options": [_option_data(n, one) for n, one in enumerate(advice.options, 1)],
        "ruled_out": [{"why": why, "what": what} for why, what in groups.items()],
        "refused": sorted({why for _, why in advice.refused}),
        "pareto": [_point(one) for one in pareto_front(advice.found.candidates)],
    }


def _option_data(rank: int, one: Option) -> dict[str, Any]:
    layout = one.layout
    return {
        "rank": rank,
        "tie": one.is_tie,
        "where": one.node_option.name,
        "nodes": one.candidate.nodes,
        "gpus": layout.gpus,
        "layout": {
            "tensor": layout.tensor,
            "pipeline": layout.pipeline,
            "virtual_pipeline": layout.virtual_pipeline,
            "sequence": layout.sequence_parallel,
            "zero": layout.zero,
            "micro": layout.micro_batch,
            "recompute": layout.recompute,
        },
        "step_seconds": range_data(one.speed.step_seconds),
        "seconds": range_data(one.seconds),
        "cost": range_data(one.cost.usd) if one.cost else None,
        "price": one.cost.price._asdict() if one.cost else None,
        "memory_gib": range_data(one.memory.gib),
        "verdict": one.memory.verdict,
        "why": one.why,
        "set": [setting.written() for setting in one.settings],
    }


def _point(one: Candidate) -> dict[str, Any]:
    return {
        "where": one.where,
        "nodes": one.nodes,
        "layout": layout_text(one.layout),
        "step_seconds": rounded(one.seconds),
        "usd": rounded(one.usd or 0.0),
    }


# ------------------------------------------------------------------ plot
#
# Draws time against cost with matplotlib, which clusterjobs does not need otherwise.


FORMATS = (".png", ".svg")


def write_plot(file: pathlib.Path, advice: Advice) -> None:
    """Raises InputError without matplotlib, without prices, or if the file cannot be written."""
    if file.suffix not in FORMATS:
        raise one_problem(f"--plot: {file} is no .png or .svg", hint="write --plot pareto.png")
    priced = [one for one in advice.found.candidates if one.usd]
    if not priced:
        hint = advice.no_prices[0] if advice.no_prices else "no layout fits"
        raise one_problem("--plot: time against cost needs a price", hint=hint)
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise one_problem(
            "--plot needs the package matplotlib",
            hint="pip install 'clusterjobs[plot]', or use --pareto for the terminal",
        ) from None
    figure = Figure(figsize=(8, 5), layout="constrained")
    axes = figure.add_subplot()
    for where in dict.fromkeys(one.where for one in priced):
        points = [one for one in priced if one.where == where]
        axes.scatter([p.seconds for p in points], [p.usd or 0.0 for p in points], s=6, label=where)
    front = pareto_front(priced)
    axes.plot(
        [p.seconds for p in front], [p.usd or 0.0 for p in front], "k.-", label="Pareto front"
    )
    for point in front[:8]:
        text = f"{point.nodes} nodes, {layout_text(point.layout)}"
        axes.annotate(text, (point.seconds, point.usd), fontsize=6)
    axes.set(xscale="log", yscale="log", xlabel="seconds a step", ylabel="USD")
    axes.legend(fontsize=8)
    try:
        figure.savefig(file, dpi=150)
    except OSError as error:
        raise one_problem(f"cannot write {file}: {error.strerror or error}") from None


# ------------------------------------------------------------------ terminal plot
#
# Time against cost in the terminal: a grid of characters, the Pareto front as letters.


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
