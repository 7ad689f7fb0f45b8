"""The foresight of a run: reads what lies beside the spec, and joins it with the plan.

Its imports are where they are needed: a plan may cost 10 ms for foresight, and an import 0.5 ms.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from clusterjobs.console.show import show_problems
from clusterjobs.errors import InputError, Problem
from clusterjobs.foresight.job import CPU, ForeseenJob, Unknown, foreseen_job
from clusterjobs.sites.folders import MEASUREMENTS_FILE, SiteFolders

if TYPE_CHECKING:
    from clusterjobs.foresight.foresee import Foresight
    from clusterjobs.foresight.measured import Measurement
    from clusterjobs.runs.run import Run


WRONG_FILES = "prices or measurements of the site cannot be read"


def foresight_of(run: Run, with_nearest: bool = True) -> Foresight | Unknown:
    """The foresight, or why there is none."""
    try:
        return _foresight_of(run, with_nearest)
    except InputError as error:  # a wrong price or measurement stops no job
        return Unknown(WRONG_FILES, problems=_as_warnings(error))


def _foresight_of(run: Run, with_nearest: bool) -> Foresight | Unknown:
    """The same. Raises InputError for the site's own files."""
    measured = _measurements(run.site)
    facts, configs = run.source.facts, run.configs
    job = foreseen_job(run.plan, run.spec, facts, configs, with_cpus=bool(measured))
    return job if isinstance(job, Unknown) else _foreseen(run, measured, with_nearest, job)


def _foreseen(
    run: Run, measured: tuple[Measurement, ...], with_nearest: bool, job: ForeseenJob
) -> Foresight | Unknown:
    from clusterjobs.foresight.foresee import foresee

    found = foresee(job, run.inputs.sites, measured, with_nearest)
    if found.measured is None and not job.gpu.family and job.gpu.name.startswith(CPU):
        return Unknown(f"{job.nodes.node_type} has no GPU, and nothing was measured on it")
    return found


def _measurements(site: SiteFolders) -> tuple[Measurement, ...]:
    if not site.files(MEASUREMENTS_FILE):
        return ()
    from clusterjobs.foresight.measured import read_measurements

    return read_measurements(site)


def foresight_block(run: Run) -> Iterator[str]:
    """The block of `plan`; nothing if the spec says nothing of a model."""
    found = foresight_of(run)
    if not isinstance(found, Unknown):
        from clusterjobs.foresight.text import foresight_text

        yield foresight_text(found)
        return
    show_problems(found.problems)
    if run.spec.experiment.model and run.plan.placement.node_type.gpus:
        hint = f" ({found.hint})" if found.hint else ""
        yield f"foresight\n  unknown: {found.why}{hint}"


def foresight_json(run: Run) -> dict[str, Any] | None:
    """The value of `foresight` in `plan --json`; null if nothing can be predicted."""
    found = foresight_of(run)
    if isinstance(found, Unknown):
        show_problems(found.problems)
        return None
    from clusterjobs.foresight.foresee import foresight_data

    return foresight_data(found)


def warnings_of(run: Run, strict: bool = False) -> tuple[Problem, ...]:
    """What foresight warns of; a warning of some points names them.

    With `strict`, a job that does not fit is an error.
    """
    points: dict[Problem, list[str]] = {}
    try:
        measured = _measurements(run.site)
        foresee = functools.cache(functools.partial(_foreseen, run, measured, False))
        for point, spec in zip(run.points, run.specs, strict=True):
            facts, configs = run.source.facts, run.configs
            job = foreseen_job(point.plan, spec, facts, configs, with_cpus=bool(measured))
            found = job if isinstance(job, Unknown) else foresee(job)  # most points are alike
            if not isinstance(found, Unknown):
                from clusterjobs.foresight.text import foresight_warnings

                for one in foresight_warnings(found, spec, strict):
                    points.setdefault(one, []).append(point.point.name)
    except InputError as error:
        return _as_warnings(error)
    every = len(run.points)
    return tuple(
        one if len(names) == every else one._replace(points=tuple(names))
        for one, names in points.items()
    )


def _as_warnings(error: InputError) -> tuple[Problem, ...]:
    return tuple(one._replace(warning=True) for one in error.problems)
