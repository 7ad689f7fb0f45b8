"""Puts the page together: what was achieved first, then comparison, plots, and each run.

It knows the order of the page and its Content-Security-Policy; it must not know how a part is made.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from markupsafe import Markup

from clusterjobs.report.compare import TITLE as COMPARISON
from clusterjobs.report.compare import comparison
from clusterjobs.report.page.curves import MOST_RUNS, Plot, plot_data, plots_of
from clusterjobs.report.page.lost_time import bars
from clusterjobs.report.page.overview import facts, sentence, subtitle, values_table
from clusterjobs.report.page.tables import attempts_table, rates_table, side_by_side, sources_table
from clusterjobs.report.page.templates import asset, render
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table

_STYLES = ("uplot/uPlot.min.css", "style.css")
_UPLOT = ("scripts/before_uplot.js", "uplot/uPlot.iife.min.js")
_OWN = tuple(f"scripts/{name}.js" for name in ("numbers", "look", "cursor", "zoom", "plots"))
_NUMBER = re.compile(r"[-+<$ ]*\d|not a number$|-$")


def page(runs: Sequence[Run], tables: Sequence[Table] = (), title: str = "") -> str:
    """A whole page of HTML; the same runs give the same text. `tables`: scaling, ranks and others.

    The page compares the runs itself: a table of `comparison` is left out.
    """
    runs = _with_own_names(runs)
    plots = plots_of(runs)
    style, uplot, own = map(_joined, (_STYLES, _UPLOT, _OWN))
    licence = asset("uplot/LICENSE")  # its terms: in every copy of the code
    script = f'/*\n{licence}*/\n{uplot}\n(() => {{\n"use strict";\n{own}\n}})();\n'
    return render(
        "page.html.j2",
        title=title or _title(runs),
        policy=_policy(style, script),
        style=Markup(style),
        script=Markup(script),
        data=Markup(plot_data(plots, len(runs))),
        runs=[_run(run) for run in runs],
        compared=side_by_side(runs) if len(runs) > 1 else None,
        compared_notes=comparison(runs).notes if len(runs) > 1 else (),
        tables=[_table(table) for table in tables if table.title != COMPARISON],
        plots=[_plot(plot) for plot in plots],
        not_plotted=max(0, len(runs) - MOST_RUNS),
        most_runs=MOST_RUNS,
    )


def _joined(names: Iterable[str]) -> str:
    return "\n".join(map(asset, names))


def _with_own_names(runs: Sequence[Run]) -> list[Run]:
    """With the job id behind names that several runs have."""
    count = Counter(run.name for run in runs)
    return [
        replace(run, name=f"{run.name} ({run.job_id})")
        if count[run.name] > 1 and run.job_id
        else run
        for run in runs
    ]


def _title(runs: Sequence[Run]) -> str:
    return runs[0].name if len(runs) == 1 else f"{len(runs)} runs"


def _run(run: Run) -> dict[str, Any]:
    found = (attempts_table(run), rates_table(run), sources_table(run))
    return {
        "name": run.name,
        "subtitle": subtitle(run),
        "facts": facts(run),
        "advice": run.advice,
        "notes": run.notes,
        "bars": bars(run),
        "tables": [_table(table) for table in found if table],
    }


def _plot(plot: Plot) -> dict[str, Any]:
    return {
        "plot": plot,
        "sentence": sentence(plot),
        "table": _table(values_table(plot)),
        "wide": plot.quantity == "loss",
    }


def _table(table: Table) -> dict[str, Any]:
    """`numeric`: of each column, whether all its cells are numbers, which stand on the right."""
    columns = zip_longest(table.head, *table.rows, fillvalue="")
    numeric = [all(not cell or _NUMBER.match(cell) for cell in column[1:]) for column in columns]
    is_words = table.title.replace(" ", "").isalpha()  # and no file name
    title = table.title[:1].upper() + table.title[1:] if is_words else table.title
    return {**table._asdict(), "title": title, "numeric": numeric}


def _policy(style: str, script: str) -> str:
    """Nothing may be loaded; only this style and this script count."""
    hashes = (
        base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for text in (style, script)
    )
    style_hash, script_hash = hashes
    return (
        f"default-src 'none'; style-src 'sha256-{style_hash}'; script-src 'sha256-{script_hash}'; "
        "base-uri 'none'; form-action 'none'"
    )
