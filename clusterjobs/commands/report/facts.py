"""What is known of a run beside its log: the job's folder, and what its spec says today."""

from __future__ import annotations

import dataclasses
import json
from typing import Any

from clusterjobs.commands.foresight.job import CPU, ForeseenJob, Unknown
from clusterjobs.commands.foresight.prices import price_of
from clusterjobs.commands.report.specs import Planned, Specs
from clusterjobs.commands.report.targets import Target
from clusterjobs.errors import InputError
from clusterjobs.foresight.cost import HourlyPrice
from clusterjobs.jobs.folders import read_plan
from clusterjobs.jobs.records import Attempt, read_folder, unrecorded_attempts
from clusterjobs.report.job import Job, RecordedAttempt

_CHANGED = (
    "The spec has changed since this job was rendered: model, GPUs and price are those of today."
)

_MOST = 10**9  # ranks and GPUs: beyond it, plan.json is damaged or hostile


def job_of(target: Target, specs: Specs) -> Job:
    """Whatever is known; nothing of it is needed."""
    job = _in_folder(target)
    planned = specs.planned(target.spec, target.point) if target.spec else None
    if planned is None:
        return job
    content = read_plan(target.folder / "plan.json").get("content") if target.folder else None
    if isinstance(content, str) and content != planned.content:
        job = dataclasses.replace(job, notes=(*job.notes, _CHANGED))
    return _with_plan(job, planned)


def _in_folder(target: Target) -> Job:
    if target.folder is None:
        return Job(name=target.name)
    plan = read_plan(target.folder / "plan.json")
    attempts = read_folder(target.folder).attempts
    attempts += unrecorded_attempts(target.folder, attempts)
    ranks, per_node = _derived(plan, "world_size"), _derived(plan, "ranks_per_node")
    nodes = ranks // per_node if ranks and per_node else None
    gpus_per_node = _derived(plan, "gpus_per_node")
    return Job(
        name=target.point or _name(plan) or target.folder.name,
        job_id=target.folder.name,
        framework=str(plan.get("framework") or ""),
        nodes=nodes,
        ranks=ranks,
        gpus=gpus_per_node * nodes if gpus_per_node and nodes else None,
        attempts=tuple(map(_attempt, attempts)),
        point=_point(plan),
    )


def _name(plan: dict[str, Any]) -> str:
    point = plan.get("point")
    name = point.get("name") if isinstance(point, dict) else plan.get("name")
    return name if isinstance(name, str) else ""


def _point(plan: dict[str, Any]) -> dict[str, str]:
    """The keys and values of a sweep's point, as plan.json has them."""
    point = plan.get("point")
    values = point.get("values") if isinstance(point, dict) else None
    if not isinstance(values, dict):
        return {}
    return {
        key: value if isinstance(value, str) else json.dumps(value) for key, value in values.items()
    }


def _derived(plan: dict[str, Any], name: str) -> int | None:
    derived = plan.get("derived")
    value = derived.get(name) if isinstance(derived, dict) else None
    return value if isinstance(value, int) and 0 < value < _MOST else None


def _attempt(one: Attempt) -> RecordedAttempt:
    began = one.began
    if began is None and one.ended is not None and one.seconds is not None:
        began = one.ended - one.seconds
    return RecordedAttempt(one.number, one.reason, one.seconds, began, one.submitted)


def _with_plan(job: Job, planned: Planned) -> Job:
    """With ranks, model, layout, GPU and price, as the spec has them today."""
    found, shape = planned.job, planned.shape
    job = dataclasses.replace(
        job,
        batch=planned.batch,
        nodes=job.nodes or shape.nodes,
        ranks=job.ranks or shape.world_size,
        gpus=job.gpus or shape.nodes * shape.gpus_per_node or None,
    )
    if isinstance(found, Unknown):
        return job
    is_gpu = not found.gpu.name.startswith(CPU)
    return dataclasses.replace(
        job,
        batch=found.layout.global_batch,
        sequence=found.model.sequence,
        model=found.model,
        layout=found.layout,
        gpu=found.gpu if is_gpu else None,
        paid_nodes=_with_roles(job.nodes or shape.nodes, found),
        total_steps=_total_steps(found),
        price=_price(found, planned),
    )


def _with_roles(nodes: int, found: ForeseenJob) -> int:
    """All nodes of the job. `nodes` train: those of the log, and not of the spec today."""
    return nodes + max(0, round(found.nodes.number) - found.layout.nodes)


def _total_steps(found: ForeseenJob) -> int | None:
    if found.length is None:
        return None
    return round(found.length.steps_with(found.layout.global_batch, found.model.sequence))


def _price(found: ForeseenJob, planned: Planned) -> HourlyPrice | None:
    """None where points share nodes: their shares of the price are unknown."""
    if found.nodes.number < 1:
        return None
    try:
        price = price_of(found.nodes, planned.sites)
    except InputError:  # `plan` shows what is wrong with the site's prices
        return None
    return None if isinstance(price, str) else price
