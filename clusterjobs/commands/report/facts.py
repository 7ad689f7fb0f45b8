"""What is known of a run beside its log: the job's folder, and what its spec says today."""

from __future__ import annotations

import dataclasses
import json
import pathlib
from typing import Any

from clusterjobs.commands.foresight.job import CPU, ForeseenJob, Unknown, foreseen_job
from clusterjobs.commands.foresight.prices import price_of
from clusterjobs.commands.pipeline import Project, load
from clusterjobs.commands.report.targets import Target
from clusterjobs.commands.spec_files import SpecFiles
from clusterjobs.errors import InputError
from clusterjobs.foresight.cost import HourlyPrice
from clusterjobs.jobs.folders import read_plan
from clusterjobs.jobs.records import Attempt, read_folder, unrecorded_attempts
from clusterjobs.report.formats import Format
from clusterjobs.report.formats.own_pattern import OwnPattern
from clusterjobs.report.job import Job, RecordedAttempt


def job_of(target: Target) -> Job:
    """Whatever is known; nothing of it is needed."""
    job = _in_folder(target)
    return _with_spec(job, target.spec) if target.spec and target.point is None else job


def own_formats(target: Target) -> list[Format]:
    """The patterns of the spec's key `report`. Raises InputError for a spec that is wrong."""
    if target.spec is None:
        return []
    wanted = SpecFiles(target.spec).load_points()[0].experiment.report
    return [OwnPattern(wanted.pattern, wanted.values)] if wanted else []


def _in_folder(target: Target) -> Job:
    if target.folder is None:
        return Job(name=target.log.name if target.log else "standard input")
    plan = read_plan(target.folder / "plan.json")
    attempts = read_folder(target.folder).attempts
    attempts += unrecorded_attempts(target.folder, attempts)
    ranks, per_node = _derived(plan, "world_size"), _derived(plan, "ranks_per_node")
    nodes = ranks // per_node if ranks and per_node else None
    gpus_per_node = _derived(plan, "gpus_per_node")
    return Job(
        name=target.point or str(plan.get("name") or target.folder.name),
        job_id=target.folder.name,
        framework=str(plan.get("framework") or ""),
        nodes=nodes,
        ranks=ranks,
        gpus=gpus_per_node * nodes if gpus_per_node and nodes else None,
        attempts=tuple(map(_attempt, attempts)),
        point=_point(plan),
    )


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
    return value if isinstance(value, int) and value > 0 else None


def _attempt(one: Attempt) -> RecordedAttempt:
    began = one.began
    if began is None and one.ended is not None and one.seconds is not None:
        began = one.ended - one.seconds
    return RecordedAttempt(one.number, one.reason, one.seconds, began, one.submitted)


def _with_spec(job: Job, spec: pathlib.Path) -> Job:
    """With model, layout, GPU and price; a spec that cannot be planned today gives nothing."""
    try:
        project = load(spec, (), to_write=False)
    except InputError:
        return job
    if not isinstance(project, Project):
        return job
    experiment = project.spec.experiment
    batch = experiment.batch.global_ if experiment.batch else None
    job = dataclasses.replace(job, batch=job.batch or batch)
    found = foreseen_job(project.plan, project.spec, project.source.facts, project.configs, True)
    if isinstance(found, Unknown):
        return job
    return _with_foreseen(job, found, project)


def _with_foreseen(job: Job, found: ForeseenJob, project: Project) -> Job:
    is_gpu = not found.gpu.name.startswith(CPU)
    return dataclasses.replace(
        job,
        batch=found.layout.global_batch,
        sequence=found.model.sequence,
        model=found.model,
        layout=found.layout,
        gpu=found.gpu if is_gpu else None,
        gpus=job.gpus or (found.layout.gpus if is_gpu else None),
        nodes=job.nodes or found.layout.nodes,
        total_steps=_total_steps(found),
        price=_price(found, project),
    )


def _total_steps(found: ForeseenJob) -> int | None:
    if found.length is None:
        return None
    return round(found.length.steps_with(found.layout.global_batch, found.model.sequence))


def _price(found: ForeseenJob, project: Project) -> HourlyPrice | None:
    price = price_of(found.nodes, project.inputs.sites)
    return None if isinstance(price, str) else price
