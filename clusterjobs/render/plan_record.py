"""plan.json: what a job was rendered from and what was derived, for `status`, `logs` and reports.

The script writes it into the job's folder. It holds names of files, never folders, so that the
same input gives the same bytes everywhere.
"""

from __future__ import annotations

import json
from typing import Any

from clusterjobs import __version__
from clusterjobs.plan.plan import Plan
from clusterjobs.render.inputs import Inputs, digest
from clusterjobs.spec.references import show


def plan_json(plan: Plan, inputs: Inputs) -> str:
    """The text of plan.json: one object in one line."""
    file, text = inputs.spec
    record: dict[str, Any] = {
        "name": plan.job.name,
        "spec": {"file": file, "sha256": digest(text), "set": list(inputs.settings)},
        "clusterjobs": __version__,
        "cluster": plan.job.cluster,
        "framework": plan.job.framework,
        "launcher": plan.launch.launcher.name,
        "content": inputs.content,
    }
    record["derived"] = {
        one.name: show(one.value) if isinstance(one.value, str) else one.value
        for one in plan.derived
    }
    return json.dumps(record)
