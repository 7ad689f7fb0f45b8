"""The warnings of foresight: what would waste the GPUs that are about to be rented.

Idle GPUs are no part of it: the plan warns of them for every job.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from clusterjobs.commands.foresight.foresee import Foresight
from clusterjobs.commands.foresight.length import length_in_arguments
from clusterjobs.commands.foresight.text import between, minutes, number, steps_text
from clusterjobs.errors import Problem
from clusterjobs.frameworks.arguments import given_arguments
from clusterjobs.spec.load import Spec
from clusterjobs.yaml.document import Path, dotted

SAME_LENGTH = 0.02
MOST_LOST = 0.20  # of the GPUs' time, in a bubble


def foresight_warnings(found: Foresight, spec: Spec, strict: bool = False) -> Iterator[Problem]:
    """`strict`: a job that does not fit is an error."""

    def problem(path: Path, what: str, hint: str, warning: bool = True) -> Problem:
        return Problem(what, spec.source.locate(path), dotted(path), hint, warning)

    memory, layout = found.memory, found.job.layout
    if memory.verdict == "does_not_fit":
        what = f"does not fit: about {between(memory.gib, 'GiB')} of a GPU's "
        what += f"{number(memory.capacity)} GiB are needed"
        remedy = (
            memory.remedies[0]
            if memory.remedies
            else f"clusterjobs advise {spec.source.locate(()).file}"
        )
        where = _written(spec, ("batch", "micro"), ("batch",), ("model",))
        yield problem(where, what, remedy, not strict)
    bubble = bubble_share(found)
    if bubble > MOST_LOST:
        p, m = layout.pipeline, round(layout.micro_batches)
        batches = "1 micro batch" if m == 1 else f"{m} micro batches"
        what = f"the pipeline is idle {bubble:.0%} of the time: {batches} in {p} stages"
        hint = f"accumulation of at least {4 * p}, or a smaller pipeline: clusterjobs advise"
        yield problem(("parallel", "pipeline"), what, hint)
    if lengths := _two_lengths(found, spec):
        own, other, origin = lengths
        what = f"training is {steps_text(own)}, but {origin} makes it {steps_text(other)}"
        hint = f"time and cost are those of training, and the program follows {origin}: "
        yield problem(("training",), what, f"{hint}correct one of them, or remove training")
    interval, limit = found.saves.interval_seconds, found.job.time_limit
    if interval and limit and found.speed and limit < interval.mid:
        what = f"the time limit of {limit // 60} min is shorter than the {minutes(interval)} "
        what += f"between two checkpoints ({found.saves.interval_steps} steps)"
        steps = max(1, int(found.saves.best_interval.mid / found.speed.step_seconds.mid))
        best = f"save every {min(steps, int(limit / 2 / found.speed.step_seconds.mid)) or 1} steps"
        yield problem(("time_limit",), what, f"{best}, or a longer time_limit")


def _two_lengths(found: Foresight, spec: Spec) -> tuple[int, int, str] | None:
    """Steps of `training` and of an argument that the program gets, if they differ, and its name.

    Tokens are rarely whole steps, so a small difference is none; with a batch that grows, steps and
    tokens cannot be compared.
    """
    length, other = found.job.length, length_in_arguments(spec.experiment)
    if length is None or length.origin != "training" or other is None:
        return None
    if any(one.key == "rampup_batch_size" for one in given_arguments(spec.experiment)):
        return None
    sizes = found.job.layout.global_batch, found.job.model.sequence
    own, given = length.steps_with(*sizes), other.steps_with(*sizes)
    is_same = abs(own - given) <= max(1, SAME_LENGTH * own)
    return None if is_same else (own, given, other.origin)


def bubble_share(found: Foresight) -> float:
    """The share of the step that the pipeline's bubble takes."""
    layout = found.job.layout
    if layout.pipeline == 1:
        return 0.0
    idle = (layout.pipeline - 1) / layout.virtual_pipeline
    return idle / (layout.micro_batches + idle)


def _written(spec: Spec, *paths: Path) -> Path:
    """The first of these that the spec has."""
    for path in paths:
        value: Any = spec.expanded
        for step in path:
            value = value.get(step, {}) if isinstance(value, dict) else {}
        if value != {}:
            return path
    return paths[-1]
