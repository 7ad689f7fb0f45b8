"""Draws time against cost with matplotlib, which clusterjobs does not need otherwise."""

from __future__ import annotations

import pathlib

from clusterjobs.commands.advise.options import layout_text
from clusterjobs.commands.advise.report import Advice
from clusterjobs.errors import one_problem
from clusterjobs.foresight.ranking import pareto_front

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
