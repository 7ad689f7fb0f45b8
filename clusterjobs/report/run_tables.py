"""The tables of a report: several runs beside each other, and beside a prediction."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterator, Sequence

from clusterjobs.console.show import show_problems
from clusterjobs.errors import one_problem
from clusterjobs.files import open_regular
from clusterjobs.plugins import Prediction, Unknown, predict
from clusterjobs.report.compare import against, comparison, scaling
from clusterjobs.report.logs.flight_recorder import MOST_BYTES, Dump, hang, read_dump
from clusterjobs.report.logs.records import Log
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table, share
from clusterjobs.runs.load import load


def predicted_for(spec: pathlib.Path) -> Prediction:
    """The prediction. Raises InputError if the spec is wrong, or nothing can be predicted."""
    planned = load(spec, (), to_write=False)
    if planned.sweep:
        raise one_problem(f"--against {spec}: it has a sweep", hint="name a spec without a sweep")
    found = predict(planned.planned_jobs[0])
    if isinstance(found, Unknown):
        show_problems(found.problems)
        raise one_problem(f"--against {spec}: {found.why}", hint=found.hint)
    return found


def tables_of(runs: Sequence[Run], spec: pathlib.Path | None) -> list[Table]:
    """Those that say something about these runs. Raises InputError for a wrong spec."""
    tables = [comparison(runs)] if len(runs) > 1 else []
    if (scaled := scaling(runs)) is not None:
        tables.append(scaled)
    if spec:
        predicted = predicted_for(spec)
        tables += [against(run, predicted, spec.name) for run in runs]
    return tables


_DUMP = re.compile(r"nccl-trace-rank-(\d{1,7})")  # the name that the job script chooses


def rank_tables(run: Run, log: Log, folder: pathlib.Path | None) -> Iterator[Table]:
    """The ranks that are slow, and those that a hang waited for; nothing without such ranks."""
    if log.slow_ranks:
        head = ("rank", "node", "slower by", "in the share of steps", "compared")
        rows = tuple(
            (
                *(str(one.rank), _node_of(one.rank, run)),
                *(share(one.ratio - 1), share(one.often), one.what),
            )
            for one in log.slow_ranks
        )
        note = (
            f"Compared with the median of all ranks, in the last {log.slow_ranks[0].steps} steps."
        )
        yield Table(f"{run.name}: slow ranks", head, rows, (note,))
    if folder:
        dumps, problems = _dumps(folder)
        sentences = (*(hang(dumps, run.ranks) if dumps else ()), *problems)
        if sentences:
            yield Table(f"{run.name}: the hang, by the flight recorder", notes=sentences)


def _node_of(rank: int, run: Run) -> str:
    """`2 of 4`, in the order of the job's nodes; each has the same number of ranks."""
    if not run.ranks or not run.nodes or rank >= run.ranks or run.ranks % run.nodes:
        return "-"
    return f"{rank // (run.ranks // run.nodes) + 1} of {run.nodes}"


def _dumps(folder: pathlib.Path) -> tuple[list[Dump], tuple[str, ...]]:
    dumps, problems = [], []
    named = ((_DUMP.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
    for rank, path in ((int(found[1]), path) for found, path in named if found):
        try:
            with open_regular(path) as file:
                dumps.append(read_dump(file.read(MOST_BYTES + 1), rank))
        except (OSError, ValueError) as error:
            problems.append(f"The dump of rank {rank} cannot be read: {error}")
    return dumps, tuple(problems)
