"""What is known of a run beside its log: what is in the job's folder, and in its spec."""

from __future__ import annotations

import json
from typing import Any

from clusterjobs.commands.report.of_spec import with_spec
from clusterjobs.commands.report.targets import Target
from clusterjobs.jobs.folders import read_plan
from clusterjobs.jobs.records import Attempt, read_folder, unrecorded_attempts
from clusterjobs.report.formats import Format, all_formats
from clusterjobs.report.formats.own_pattern import OwnPattern
from clusterjobs.report.job import Job, RecordedAttempt
from clusterjobs.spec.experiment import Experiment


def job_of(target: Target) -> Job:
    """Whatever is known; nothing of it is needed."""
    job = _in_folder(target)
    if target.spec is None:
        return job
    plan = read_plan(target.folder / "plan.json") if target.folder else {}
    return with_spec(job, target.spec, target.point, plan.get("content"))


def formats_of(experiment: Experiment | None) -> list[Format]:
    """The formats to look for: the patterns of the spec's key `report` before all others."""
    own = experiment.report if experiment else None
    return [*([OwnPattern(own.pattern, own.values)] if own else []), *all_formats()]


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
