"""The tables of a report: several runs beside each other, and beside a prediction."""

from __future__ import annotations

import pathlib
from collections.abc import Sequence

from clusterjobs.commands.report.predicted import predicted_for
from clusterjobs.report.against import against
from clusterjobs.report.compare import comparison
from clusterjobs.report.run import Run
from clusterjobs.report.scaling import scaling
from clusterjobs.report.tables import Table


def tables_of(runs: Sequence[Run], spec: pathlib.Path | None) -> list[Table]:
    """Those that say something about these runs. Raises InputError for a wrong spec."""
    tables = [comparison(runs)] if len(runs) > 1 else []
    if (scaled := scaling(runs)) is not None:
        tables.append(scaled)
    if spec:
        predicted = predicted_for(spec)
        tables += [against(run, predicted) for run in runs]
    return tables
