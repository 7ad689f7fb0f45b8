"""The foresight of planned jobs, as plug-ins enter it: warnings, a block of `plan`, a prediction.

Some imports are where they are needed: a plan may cost 10 ms for foresight, and an import 0.5 ms.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clusterjobs.console import show_problems
from clusterjobs.errors import InputError, Problem
from clusterjobs.plugins import Block, Check, PlannedJob, Prediction, Predictor, Unknown
from clusterjobs.sites.folders import MEASUREMENTS_FILE, SiteFolders

if TYPE_CHECKING:
    from clusterjobs.foresight.foresee import Foresight
    from clusterjobs.foresight.measured import Measurement
    from clusterjobs.runs.training import Training


WRONG_FILES = "prices or measurements of the site cannot be read"


def foresight_of(job: PlannedJob, with_nearest: bool = True) -> Foresight | Unknown:
    """The foresight, or why there is none."""
    try:
        return _predicting(job, with_nearest)(job)
    except InputError as error:  # a wrong price or measurement stops no job
        return Unknown(WRONG_FILES, problems=_as_warnings(error))


def _predicting(
    first: PlannedJob, with_nearest: bool
) -> Callable[[PlannedJob], Foresight | Unknown]:
    """Predicts the jobs of one run, which share the site's measurements and prices.

    Raises InputError for the site's own files, also later.
    """
    measured = _measurements(first.site)

    @functools.cache  # most points are alike
    def of_training(training: Training) -> Foresight | Unknown:
        from clusterjobs.foresight.foresee import foresee
        from clusterjobs.runs.training import CPU

        found = foresee(training, first.inputs.sites, measured, with_nearest)
        gpu = training.gpu
        if found.measured is None and not gpu.family and gpu.name.startswith(CPU):
            kind = training.nodes.node_type
            return Unknown(f"{kind} has no GPU, and nothing was measured on it")
        return found

    def of_job(job: PlannedJob) -> Foresight | Unknown:
        from clusterjobs.runs.training import training_of

        facts, with_cpus = job.source.facts, bool(measured)
        training = training_of(job.plan, job.loaded, facts, job.texts, with_cpus)
        return training if isinstance(training, Unknown) else of_training(training)

    return of_job


def _measurements(site: SiteFolders) -> tuple[Measurement, ...]:
    if not site.files(MEASUREMENTS_FILE):
        return ()
    from clusterjobs.foresight.measured import read_measurements

    return read_measurements(site)


def _text(job: PlannedJob) -> Iterator[str]:
    """The block of `plan`; nothing for a program that may train no model, and without GPUs."""
    found = foresight_of(job)
    if not isinstance(found, Unknown):
        from clusterjobs.foresight.text import foresight_text

        yield foresight_text(found)
        return
    show_problems(found.problems)
    spec = job.loaded.spec
    if job.plan.placement.node_type.gpus and (spec.model or spec.framework != "command"):
        hints = found.hint.split("; ") if found.hint else []
        hint = f" ({hints[0]})" if len(hints) == 1 else "".join(f"\n    {one}" for one in hints)
        yield f"foresight\n  memory, time and cost are unknown: {found.why}{hint}"


def _data(job: PlannedJob) -> dict[str, Any] | None:
    """The value of `foresight` in `plan --json`; null if nothing can be predicted."""
    found = foresight_of(job)
    if isinstance(found, Unknown):
        show_problems(found.problems)
        return None
    from clusterjobs.foresight.foresee import foresight_data

    return foresight_data(found)


def _warnings(jobs: Sequence[PlannedJob], strict: bool) -> tuple[Problem, ...]:
    """What foresight warns of. With `strict`, a job that does not fit is an error.

    A warning that only some points have names them.
    """
    has_gpus = any(one.plan.placement.node_type.gpus for one in jobs)
    if not has_gpus and not jobs[0].site.files(MEASUREMENTS_FILE):
        return ()  # nothing is predicted
    points: dict[Problem, list[str]] = {}
    try:
        predict = _predicting(jobs[0], with_nearest=False)
        for job in jobs:
            found = predict(job)
            if not isinstance(found, Unknown):
                from clusterjobs.foresight.text import foresight_warnings

                for one in foresight_warnings(found, job.loaded, strict):
                    points.setdefault(one, []).append(
                        job.loaded.point.name if job.loaded.point else ""
                    )
    except InputError as error:
        return _as_warnings(error)
    return tuple(
        one if len(names) == len(jobs) else one._replace(points=tuple(names))
        for one, names in points.items()
    )


def _as_warnings(error: InputError) -> tuple[Problem, ...]:
    return tuple(one._replace(warning=True) for one in error.problems)


def _prediction(job: PlannedJob) -> Prediction | Unknown:
    found = foresight_of(job, with_nearest=False)
    if isinstance(found, Unknown):
        return found
    speed = found.speed
    return Prediction(
        speed and speed.step_seconds,
        speed and speed.tokens_per_second_per_gpu,
        speed and speed.tflops_per_gpu,
        speed and speed.mfu,
        found.memory.gib,
    )


CHECK = Check("foresight", _warnings)
BLOCK = Block("foresight", _text, _data)
PREDICTOR = Predictor("foresight", _prediction)
