"""Advice as text and as data."""

from __future__ import annotations

import math
import pathlib
import shlex
from collections.abc import Sequence
from typing import Any

from clusterjobs.console.show import printable, table
from clusterjobs.errors import counted, one_problem
from clusterjobs.foresight.advise.advise import STEPS_OF_A_PRICE, Advice, Option, layout_text
from clusterjobs.foresight.foresee import range_data, rounded
from clusterjobs.foresight.formulas.layouts import TIE, Candidate, pareto_front
from clusterjobs.foresight.text import VERDICTS, between, hours, number

SHOWN_RULES = 6


def advice_text(advice: Advice) -> str:
    """The options, what to set for the best, and what was ruled out."""
    job = advice.job
    head = f"{counted(advice.found.tried, 'layout')} tried; unchanged: global batch "
    head += f"{job.layout.global_batch}, precision {job.layout.precision}, {job.layout.engine}"
    if advice.point:
        head += f"\nthe first point of the sweep: {printable(advice.point)}"
    parts = [head, _options_table(advice)]
    tied = sum(one.is_tie for one in advice.options)
    if tied > 1:
        parts.append(
            f"1= to {tied}= are within {TIE:.0%}, the model's error: they are a tie, and the "
            "simplest comes first. clusterjobs calibrate measures one of them."
        )
    if advice.options and (best := advice.options[0]).settings:
        arguments = " ".join(f"--set {shlex.quote(one.written())}" for one in best.settings)
        parts.append("for the first:\n  " + printable(arguments))
    elif advice.options:
        parts.append("the spec has the first layout already")
    parts += [_ruled_out(advice), "\n".join(advice.no_prices)]
    return "\n\n".join(filter(None, parts))


def _options_table(advice: Advice) -> str:
    several = len({one.candidate.where for one in advice.options}) > 1
    length = "time" if advice.job.length else f"{STEPS_OF_A_PRICE:,} steps"
    where = ["where"] if several else []
    rows = [["", "layout", *where, "nodes", "step", length, "cost", "memory", "why"]]
    for rank, one in enumerate(advice.options, 1):
        rows.append(
            [
                f"{rank}{'=' if one.is_tie else ''}",
                layout_text(one.layout),
                *([one.node_option.name] if several else []),
                str(one.candidate.nodes),
                between(one.speed.step_seconds, "s"),
                hours(one.seconds),
                f"${one.cost.usd.mid:,.0f}" if one.cost else "?",
                f"{VERDICTS[one.memory.verdict]} {one.candidate.share:.0%}",
                one.why,
            ]
        )
    return table([[printable(cell) for cell in row] for row in rows])


def _ruled_out(advice: Advice) -> str:
    """The reasons, each with the first few things that it rules out."""
    lines = []
    for why, names in _by_reason(advice).items():
        more = f" and {len(names) - SHOWN_RULES} more" if len(names) > SHOWN_RULES else ""
        lines.append(f"  {why}: {', '.join(names[:SHOWN_RULES])}{more}")
    if advice.found.too_large:
        least = advice.found.smallest_share
        count = counted(advice.found.too_large, "layout")
        lines.append(f"  does not fit: {count}; the smallest needs {least:.0%} of a GPU's memory")
    reasons = dict.fromkeys(why for _, why in advice.refused)
    lines += [f"  refused by the spec's own checks: {why}" for why in reasons]
    return "ruled out:\n" + "\n".join(lines) if lines else ""


def _by_reason(advice: Advice) -> dict[str, list[str]]:
    groups: dict[str, list[str]] = {}
    for one in advice.found.ruled_out:
        groups.setdefault(one.why, []).append(one.what)
    return groups


def advice_data(advice: Advice) -> dict[str, Any]:
    """The advice as JSON data. Names and structure are stable across versions."""
    layout = advice.job.layout
    return {
        "by": "cost" if advice.by_cost else "time",
        "point": advice.point or None,
        "unchanged": {"global_batch": layout.global_batch, "precision": layout.precision},
        "tried": advice.found.tried,
        "does_not_fit": advice.found.too_large,
        "options": [_option_data(n, one) for n, one in enumerate(advice.options, 1)],
        "ruled_out": [{"why": why, "what": what} for why, what in _by_reason(advice).items()],
        "refused": sorted({why for _, why in advice.refused}),
        "pareto": [
            {
                "where": one.where,
                "nodes": one.nodes,
                "layout": layout_text(one.layout),
                "step_seconds": rounded(one.seconds),
                "usd": rounded(one.usd or 0.0),
            }
            for one in pareto_front(advice.found.candidates)
        ],
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


FORMATS = (".png", ".svg")


def write_plot(file: pathlib.Path, advice: Advice) -> None:
    """Time against cost, drawn with matplotlib.

    Raises InputError without matplotlib, without prices, or if the file cannot be written.
    """
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


# The plot in the terminal.
WIDTH, HEIGHT = 64, 16
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
NO_PRICES = "no Pareto plot: no price is known; site.yaml can give prices"


def terminal_plot(candidates: Sequence[Candidate]) -> str:
    """Time against cost, on logarithmic axes.

    A dot is a layout, a letter one that no other beats in both.
    """
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
    left, right = f"{number(x.least)} s", f"{number(x.most)} s a step"
    lines += [
        f"{'':>{margin}} +{'-' * WIDTH}",
        f"{'':>{margin}}  {left}{right:>{WIDTH - len(left)}}",
        *(
            f"  {letter}  {number(one.seconds)} s, ${number(one.usd or 0.0)}: {one.where}, "
            f"{one.nodes} nodes, {layout_text(one.layout)}"
            for letter, one in zip(LETTERS, front, strict=False)
        ),
    ]
    return "\n".join(lines)


class _Axis:
    def __init__(self, values: Sequence[float], cells: int) -> None:
        self.least, self.most, self._cells = min(values), max(values), cells

    def cell(self, value: float) -> int:
        span = math.log(self.most / self.least)
        share = math.log(value / self.least) / span if span else 0.0
        return min(self._cells - 1, int(share * self._cells))
