"""plan.json: what a job was rendered from and what was derived, for `status`, `logs` and reports.

The script writes it into the job's folder. It holds names of files, never folders, so that the
same input gives the same bytes everywhere.
"""

from __future__ import annotations

import json
import re
from typing import Any

from clusterjobs import __version__
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.point_table import PointPlan, PointTable
from clusterjobs.plan.roles import role_data
from clusterjobs.render.inputs import Inputs, digest
from clusterjobs.spec.references import as_text, show, variable


def plan_json(plan: Plan, inputs: Inputs, point: PointPlan | None = None) -> str:
    """The text of plan.json: one object in one line. `point`: the plan's, if it is of a sweep."""
    file, text = inputs.spec
    record: dict[str, Any] = {
        "name": plan.job.name,
        "spec": {"file": file, "sha256": digest(text), "set": list(inputs.settings)},
        "clusterjobs": __version__,
        "cluster": plan.job.cluster,
        "framework": plan.job.framework,
        "launcher": plan.launch.launcher.name,
        **({} if point else {"content": inputs.content}),
    }
    record["derived"] = {
        one.name: show(one.value) if isinstance(one.value, str) else one.value
        for one in plan.derived
    }
    if plan.roles:
        record["roles"] = [role_data(role) for role in plan.roles]
    text = json.dumps(record)
    if point is None or plan.sweep is None:
        return text
    return f'{text[:-1]}, "sweep": {json.dumps(plan.sweep.name)}, "point": {_point(point)}}}'


def joined_records(table: PointTable, inputs: Inputs) -> tuple[str, PointTable]:
    """plan.json of all points in one text, and the table with the columns that it needs."""
    columns = table.to_extend()
    texts = tuple(plan_json(one.plan, inputs, one) for one in table.points)
    return columns.joined_config(texts), table.with_columns(columns)


_NUMBER = re.compile(r"-?(0|[1-9][0-9]*)(\.[0-9]+)?([eE][-+]?[0-9]+)?")


def _point(one: PointPlan) -> str:
    """The point as JSON, with the script's variables; numbers stay as they were written: `1e-4`."""
    values = (f"{json.dumps(key)}: {_value(value)}" for key, value in one.point.values.items())
    name, index = variable("point_name"), variable("point_index")
    return (
        f'{{"name": "{name}", "index": {index}, "values": {{{", ".join(values)}}}, '
        f'"content": {json.dumps(one.content)}}}'
    )


def _value(value: Any) -> str:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    written = as_text(value) if is_number else ""
    return written if _NUMBER.fullmatch(written) else json.dumps(value)
