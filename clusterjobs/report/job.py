"""What is known of a job beside its log: its attempts, GPUs, model and price."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from clusterjobs.foresight.cost import HourlyPrice
from clusterjobs.foresight.records import Gpu, Layout, ModelShape
from clusterjobs.report.records import Event


@dataclass(frozen=True)
class RecordedAttempt:
    """What the job's folder says of one attempt; None is unknown. Times in seconds.

    `began` and `submitted`, to the queue, since 1970. `staging`, `preflight`: how long they took.
    """

    number: int
    reason: str = ""
    seconds: float | None = None
    began: float | None = None
    submitted: float | None = None
    staging: float | None = None
    preflight: float | None = None


def with_events(known: RecordedAttempt, events: Iterable[Event]) -> RecordedAttempt:
    """The attempt, completed with what the log of its script says."""
    for event in events:
        if event.kind == "end":
            reason = known.reason or event.settings.get("reason", "")
            seconds = event.value if known.seconds is None else known.seconds
            known = replace(known, reason=reason, seconds=seconds)
        elif event.kind == "staging" and event.value:
            known = replace(known, staging=(known.staging or 0.0) + event.value)
        elif event.kind == "preflight" and event.value:
            known = replace(known, preflight=(known.preflight or 0.0) + event.value)
    return known


@dataclass(frozen=True)
class Job:
    """Everything is optional: a report of a bare log knows none of it.

    `batch` and `sequence`: samples of a step and tokens of a sample, where the log has no rates.
    `nodes` train; `paid_nodes` are more if the job has roles. `price` of one node. `point`: of a
    sweep, its keys and their values.
    """

    name: str = ""
    job_id: str = ""
    framework: str = ""
    nodes: int | None = None
    paid_nodes: int | None = None
    gpus: int | None = None
    ranks: int | None = None
    batch: int | None = None
    sequence: int | None = None
    total_steps: int | None = None
    attempts: tuple[RecordedAttempt, ...] = ()
    model: ModelShape | None = None
    layout: Layout | None = None
    gpu: Gpu | None = None
    price: HourlyPrice | None = None
    notes: tuple[str, ...] = ()
    point: Mapping[str, str] = field(default_factory=dict)
