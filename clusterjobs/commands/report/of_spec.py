"""What a run's spec says today: its model, layout, GPUs, length and price."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from typing import NamedTuple

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.commands.foresight.job import CPU, ForeseenJob, Unknown, foreseen_job
from clusterjobs.commands.foresight.prices import price_of
from clusterjobs.commands.own_configs import OwnConfigs
from clusterjobs.commands.pipeline import Project, load
from clusterjobs.errors import InputError
from clusterjobs.foresight.cost import HourlyPrice
from clusterjobs.plan.plan import Plan
from clusterjobs.report.job import Job
from clusterjobs.spec.load import Spec

_CHANGED = (
    "The spec has changed since this job was rendered: model, GPUs and price are those of today."
)


class _Planned(NamedTuple):
    """A spec, or one point of its sweep, with its plan. `content`: its hash."""

    plan: Plan
    spec: Spec
    content: str


class _PlannedSpec(NamedTuple):
    """Point -> its plan; "" for a spec without a sweep. `sites`: the texts of site.yaml."""

    points: dict[str, _Planned]
    facts: ClusterFacts
    configs: OwnConfigs | None
    sites: tuple[tuple[str, str], ...]


def with_spec(job: Job, spec: pathlib.Path, point: str | None, content: object) -> Job:
    """The job with what its spec adds; a spec that cannot be planned today adds nothing.

    `content`: the hash that the job was rendered with.
    """
    planned = _planned(spec)
    one = planned.points.get(point or "") if planned else None
    if planned is None or one is None:
        return job
    if isinstance(content, str) and content != one.content:
        job = dataclasses.replace(job, notes=(*job.notes, _CHANGED))
    batch = one.spec.experiment.batch
    job = dataclasses.replace(job, batch=job.batch or (batch.global_ if batch else None))
    found = foreseen_job(one.plan, one.spec, planned.facts, planned.configs, with_cpus=True)
    return job if isinstance(found, Unknown) else _with_foreseen(job, found, planned.sites)


@functools.cache  # all points of a sweep have the same spec
def _planned(spec: pathlib.Path) -> _PlannedSpec | None:
    try:
        project = load(spec, (), to_write=False)
    except InputError:
        return None
    inputs = project.inputs
    if isinstance(project, Project):
        points = {"": _Planned(project.plan, project.spec, inputs.content)}
    else:
        points = {
            one.point.name: _Planned(one.plan, of_point, one.content)
            for one, of_point in zip(project.points, project.specs, strict=True)
        }
    return _PlannedSpec(points, project.source.facts, project.configs, tuple(inputs.sites))


def _with_foreseen(job: Job, found: ForeseenJob, sites: tuple[tuple[str, str], ...]) -> Job:
    is_gpu = not found.gpu.name.startswith(CPU)
    length, sequence = found.length, found.model.sequence
    steps = length.steps_with(found.layout.global_batch, sequence) if length else None
    return dataclasses.replace(
        job,
        batch=found.layout.global_batch,
        sequence=sequence,
        model=found.model,
        layout=found.layout,
        gpu=found.gpu if is_gpu else None,
        gpus=job.gpus or (found.layout.gpus if is_gpu else None),
        nodes=job.nodes or found.layout.nodes,
        total_steps=steps,
        price=_price(found, sites),
    )


def _price(found: ForeseenJob, sites: tuple[tuple[str, str], ...]) -> HourlyPrice | None:
    try:
        price = price_of(found.nodes, sites)
    except InputError:  # `plan` shows what is wrong with the site's prices
        return None
    return None if isinstance(price, str) else price
