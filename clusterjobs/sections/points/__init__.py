"""The section `points`: the sweep that a job belongs to, and the table of its points as text."""

from collections.abc import Iterator, Sequence
from typing import Any

from clusterjobs.errors import counted
from clusterjobs.frameworks.base import folder_on_the_node
from clusterjobs.script import shell
from clusterjobs.script.lines import WIDTH, wrapped
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.plan import SweepJob
from clusterjobs.text import Text, joined, variable, variable_names

_WIDEST = 80  # longer cells are not aligned
_Rows = Sequence[Sequence[str]]


def plan(context: Context) -> SweepJob:
    spec, sweep = context.spec, context.spec.sweep
    assert sweep
    name = sweep.name or spec.name
    folder = folder_on_the_node(joined(spec.logs.path, "/", name))
    return SweepJob(name, folder, sweep.max_running, sweep.max_failed)


def variables_in(value: object) -> Iterator[str]:
    """The names of all shell variables in the texts of a plan."""
    if isinstance(value, Text):
        yield from variable_names(value)
    elif isinstance(value, tuple):
        for one in value:
            yield from variables_in(one)


def render(rendering: Rendering) -> dict[str, Any] | None:
    plan, table = rendering.plan, rendering.table
    if table is None or plan.points is None:
        return None
    own = tuple(one.point.index for one in table.points)
    is_own = (
        table.is_array and not table.slots and table.indexes == own
    )  # the task's is the point's
    names, rows = table.columns, table.rows
    if not is_own:
        names = (*names, "point_index")
        rows = tuple((*row, str(index)) for row, index in zip(rows, own, strict=True))
    cells = [list(map(shell.argument, row)) for row in rows]
    title = f"# ==== {counted(len(rows), 'point')} of the sweep {plan.points.name} "
    arguments = [f"{name}={_argument(number)}" for number, name in enumerate(names, 1)]
    return {
        "is_array": table.is_array,
        "is_packed": bool(table.slots),
        "names": shell.comment(_shortened(", ".join(names))),
        "title": shell.comment(title.ljust(WIDTH - 4, "=")),
        "table": list(_table(names, cells, table.keys)),
        "arguments": wrapped(tuple(arguments)),
        "assignments": [ShellText(f"{a}={b}") for a, b in zip(names, cells[0], strict=True)],
        "sets_index": is_own,
        "sets_label": "point_label" in variables_in(plan),
        "max_failed": (table.is_array and plan.points.max_failed) or 0,
        "failed": shell.quote(
            joined(plan.points.folder, "/failed/", variable("SLURM_ARRAY_JOB_ID"))
        ),
        "plan_json": shell.expanding_document(rendering.plan_json),
    }


def _shortened(names: str) -> str:
    return names if len(names) < WIDTH // 2 else "all variables"


def _argument(number: int) -> str:
    return f"${number}" if number < 10 else f"${{{number}}}"


def _table(names: Sequence[str], cells: _Rows, keys: Sequence[str]) -> Iterator[ShellText]:
    """The arms of a `case`: the values of each point, in columns."""
    widths = [
        max(len(one) for one in column if len(one) <= _WIDEST)
        for column in zip(names, *cells, strict=True)
    ]
    first = max(map(len, keys)) + len(") set -- ")
    yield shell.comment(f"{'#'.ljust(first)}{_aligned(names, widths)}")
    for key, row in zip(keys, cells, strict=True):
        yield ShellText(f"{f'{key})'.ljust(first - 7)}set -- {_aligned(row, widths)} ;;")


def _aligned(row: Sequence[str], widths: Sequence[int]) -> str:
    padded = (cell.ljust(width) for cell, width in zip(row[:-1], widths, strict=False))
    return "  ".join((*padded, row[-1]))
