"""Several runs side by side."""

from __future__ import annotations

from collections.abc import Sequence

from clusterjobs.report.numbers import dollars, integer, number, seconds, share
from clusterjobs.report.records import Quantity
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table

TITLE = "comparison"
_UNKNOWN = "-"
_MOST_NAMES = 3  # in a sentence


def comparison(runs: Sequence[Run]) -> Table:
    """A row for each run; what is unknown is a dash, and of all runs, left out.

    Points of a sweep have their values.
    """
    keys = tuple(dict.fromkeys(key for run in runs for key in run.point))
    head = (
        *("run", *keys, "GPUs", "steps", "samples/s", "tokens/s", "a step"),
        *("MFU", "HFU", "goodput", "loss", "cost"),
    )
    rows = [_row(run, keys) for run in runs]
    known = [place for place in range(len(head)) if {row[place] for row in rows} != {_UNKNOWN}]
    columns = [tuple(row[place] for place in known) for row in (head, *rows)]
    return Table(TITLE, columns[0], tuple(columns[1:]), tuple(_notes(runs)))


def _row(run: Run, keys: Sequence[str]) -> tuple[str, ...]:
    efficiency = run.efficiency
    step = run.rates.get("seconds")
    losses = [one.values["loss"] for one in run.windows if "loss" in one.values]
    return (
        run.name + (f" ({run.job_id})" if run.job_id else ""),
        *(run.point.get(key, _UNKNOWN) for key in keys),
        _UNKNOWN if run.gpus is None else str(run.gpus),
        _UNKNOWN if run.steps is None else integer(run.steps),
        _median(run, "samples_per_second"),
        _median(run, "tokens_per_second"),
        seconds(step.median) if step else _UNKNOWN,
        share(efficiency.mfu) if efficiency and efficiency.mfu else _UNKNOWN,
        share(efficiency.hfu) if efficiency and efficiency.hfu else _UNKNOWN,
        _UNKNOWN if run.goodput is None else share(run.goodput),
        number(losses[-1]) if losses else _UNKNOWN,
        dollars(run.cost.dollars) if run.cost else _UNKNOWN,
    )


def _median(run: Run, name: Quantity) -> str:
    return number(run.rates[name].median) if name in run.rates else _UNKNOWN


def _notes(runs: Sequence[Run]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for run in runs:
        if run.no_steady_state:
            reasons.setdefault(run.no_steady_state, []).append(run.name)
    unsteady = [f"No speed of {first_names(names)}: {reason}." for reason, names in reasons.items()]
    frameworks = {run.framework for run in runs if run.framework}
    if len(frameworks) > 1:
        unsteady.append(
            f"The logs are of {', '.join(sorted(frameworks))}: losses may differ in units."
        )
    return unsteady


def first_names(names: Sequence[str]) -> str:
    """`a, b, c and 9 more`."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
