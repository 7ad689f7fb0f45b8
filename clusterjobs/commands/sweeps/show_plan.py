"""`clusterjobs plan` of a sweep: its points and scripts, and the plan of one point."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from clusterjobs.commands.plan import plan_data, plan_text
from clusterjobs.commands.show import print_json, printable, show_problems, table
from clusterjobs.commands.summary import scripts_table
from clusterjobs.commands.sweeps.files import point_rows, shown
from clusterjobs.commands.sweeps.project import SweepProject


def show_sweep(project: SweepProject, point: str | None, points: bool, as_json: bool) -> None:
    """Print the plan. `point`: the point to show, by default the first. `points`: only a table."""
    chosen = project.at(point or "0")
    show_problems(project.plan_warnings)
    if as_json:
        print_json({**plan_data(chosen), "sweep": _data(project)})
    elif points:
        click.echo(_points_table(project))
    else:
        assert chosen.spec.point
        click.echo(scripts_table(project))
        click.echo(f"\nthe point {chosen.spec.point.name}\n{plan_text(chosen)}")


def _points_table(project: SweepProject) -> str:
    head, *rows = point_rows(project.tasks)
    return table([[printable(cell) for cell in row] for row in (head, *rows)])


def _data(project: SweepProject) -> dict[str, Any]:
    """Names and structure are stable across versions."""
    files = zip(project.script_names, project.arrays, strict=True)
    scripts = [
        {"script": file, "points": len(one.table.points), "reason": one.reason}
        for file, one in files
    ]
    return {"name": project.name, "scripts": scripts, "points": list(_points(project))}


def _points(project: SweepProject) -> Iterator[dict[str, Any]]:
    for file, task in project.tasks:
        point = task.point.point
        yield {
            "index": point.index,
            "name": point.name,
            "values": {key: shown(value) for key, value in point.values.items()},
            "script": file,
            "task": task.key,
            "content": task.point.content,
        }
