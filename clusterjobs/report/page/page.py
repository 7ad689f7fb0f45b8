"""Puts the page together: what was achieved first, then comparison, plots, and each run.

Values get into the page through Jinja templates, which always escape them.
"""

import base64
import functools
import hashlib
import math
import pathlib
import re
import statistics
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

import jinja2
from markupsafe import Markup

from clusterjobs.report.compare import TITLE as COMPARISON
from clusterjobs.report.compare import comparison
from clusterjobs.report.page.curves import MOST_RUNS, plot_data, plots_of
from clusterjobs.report.page.overview import bars, facts, subtitle
from clusterjobs.report.page.sweep import sweep_of
from clusterjobs.report.page.tables import (
    attempts_table,
    rates_table,
    sentence,
    side_by_side,
    sources_table,
    values_table,
)
from clusterjobs.report.points import (
    Metric,
    best_point,
    groups_of,
    mean_windows,
    metric_of,
    name_of,
    state_of,
)
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table, visible

_FOLDER = pathlib.Path(__file__).parent


@functools.cache
def asset(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


@functools.cache
def _environment() -> jinja2.Environment:
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(_FOLDER / "templates"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_finalize,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )


def _finalize(value: Any) -> Any:
    """Every text that is printed, but what a template has made itself."""
    if isinstance(value, str) and not isinstance(value, Markup):
        return visible(value)
    return value


_STYLES = ("uplot/uPlot.min.css", "style.css")
_UPLOT = ("scripts/before_uplot.js", "uplot/uPlot.iife.min.js")
_OWN = tuple(
    f"scripts/{name}.js" for name in ("numbers", "look", "cursor", "zoom", "plots", "sweep")
)
_NUMBER = re.compile(r"[-+<$ ]*\d|not a number$|-$")


def page(runs: Sequence[Run], tables: Sequence[Table] = (), title: str = "") -> str:
    """A whole page of HTML; the same runs give the same text. `tables`: scaling, ranks and others.

    The page compares the runs itself: a table of `comparison` is left out.
    """
    count = Counter(run.name for run in runs)
    runs = [
        replace(run, name=f"{run.name} ({run.job_id})")
        if count[run.name] > 1 and run.job_id
        else run
        for run in runs
    ]
    drawn, curve_of = _drawn(runs)
    plots = plots_of(drawn)
    sweep = sweep_of(runs)
    settings = _different_settings(runs)
    style, uplot, own = ("\n".join(map(asset, names)) for names in (_STYLES, _UPLOT, _OWN))
    licence = asset("uplot/LICENSE")  # its terms: in every copy of the code
    script = f'/*\n{licence}*/\n{uplot}\n(() => {{\n"use strict";\n{own}\n}})();\n'
    style_hash, script_hash = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    )
    template = _environment().get_template("page.html.j2")
    return template.render(
        title=title or (runs[0].name if len(runs) == 1 else f"{len(runs)} runs"),
        # Nothing may be loaded; only this style and this script count.
        policy=f"default-src 'none'; style-src 'sha256-{style_hash}'; "
        f"script-src 'sha256-{script_hash}'; base-uri 'none'; form-action 'none'",
        style=Markup(style),
        script=Markup(script),
        data=Markup(plot_data(plots, len(drawn), settings)),
        can_choose=bool(settings),
        runs=[_run(run) for run in runs],
        detailed=_detailed(runs, sweep is not None),
        curve_of=curve_of,
        sweep=sweep,
        best=metric_of(runs).best if sweep else None,
        states=[state_of(run) for run in runs],
        seeds=_table(sweep.seeds) if sweep and sweep.seeds else None,
        compared=side_by_side(runs) if len(runs) > 1 else None,
        compared_notes=[
            note for note in comparison(runs).notes if len(runs) > 1 and note != best_point(runs)
        ],
        tables=[_table(table) for table in tables if table.title != COMPARISON],
        plots=[
            {
                "plot": plot,
                "sentence": sentence(plot),
                "table": _table(values_table(plot)),
                "wide": plot.quantity == "loss",
            }
            for plot in plots
        ],
        not_plotted=sum(curve is None for curve in curve_of),
        has_groups=len(drawn) < len(runs) - curve_of.count(None),
        most_runs=MOST_RUNS,
    )


def _different_settings(runs: Sequence[Run]) -> dict[str, list[str]]:
    """The keys of the runs' points and settings that are not the same in all, with their values."""
    every = [{**run.point, **run.settings} for run in runs]
    keys = dict.fromkeys(key for one in every for key in one)
    columns = {key: [one.get(key, "") for one in every] for key in keys}
    return {key: column for key, column in columns.items() if len(set(column)) > 1}


def _drawn(runs: Sequence[Run]) -> tuple[list[Run], list[int | None]]:
    """The runs that have curves, and the curve of each run.

    Of points that differ in their seed alone, the mean; of many points of a sweep, the best ones.
    """
    metric = metric_of(runs)
    groups = list(groups_of(runs).items()) or [((), [place]) for place in range(len(runs))]
    if any(run.point for run in runs) and len(groups) > MOST_RUNS:
        groups.sort(key=lambda one: _mean(metric, one[1]))
    drawn: list[Run] = []
    curve_of: list[int | None] = [None] * len(runs)
    for number, (group, places) in enumerate(groups[:MOST_RUNS]):
        for place in places:
            curve_of[place] = number
        one = runs[places[0]]
        if len(places) > 1:
            windows = tuple(mean_windows([runs[place].windows for place in places]))
            one = replace(one, name=name_of(group), windows=windows, attempts=(), replaced=())
        drawn.append(one)
    return drawn, curve_of


def _detailed(runs: Sequence[Run], is_sweep: bool) -> list[int]:
    """The runs whose details are shown: of a large sweep, the best ones."""
    places = range(len(runs))
    if not is_sweep or len(runs) <= MOST_RUNS:
        return list(places)
    metric = metric_of(runs)
    return sorted(places, key=lambda place: _mean(metric, [place]))[:MOST_RUNS]


def _mean(metric: Metric, places: Sequence[int]) -> float:
    known = metric.known(places)
    return statistics.fmean(known) if known else math.inf


def _run(run: Run) -> dict[str, Any]:
    found = (attempts_table(run), rates_table(run), sources_table(run))
    return {
        "name": run.name,
        "subtitle": subtitle(run),
        "facts": list(facts(run)),
        "advice": run.advice,
        "notes": run.notes,
        "bars": bars(run),
        "tables": [_table(table) for table in found if table],
    }


def _table(table: Table) -> dict[str, Any]:
    """`numeric`: of each column, whether all its cells are numbers, which stand on the right."""
    columns = zip_longest(table.head, *table.rows, fillvalue="")
    numeric = [all(not cell or _NUMBER.match(cell) for cell in column[1:]) for column in columns]
    is_file_name = not table.title.replace(" ", "").isalpha()
    title = table.title if is_file_name else table.title[:1].upper() + table.title[1:]
    return {**table._asdict(), "title": title, "numeric": numeric}
