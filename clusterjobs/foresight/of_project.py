"""The foresight of a project: reads what lies beside the spec, and joins it with the plan.

Its imports are where they are needed: a plan may cost 10 ms for foresight, and an import 0.5 ms.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from clusterjobs.console.show import show_problems
from clusterjobs.errors import InputError, Problem
from clusterjobs.foresight.job import CPU, Unknown, foreseen_job
from clusterjobs.sites.folders import MEASUREMENTS_FILE, SiteFolders

if TYPE_CHECKING:
    from clusterjobs.foresight.foresee import Foresight
    from clusterjobs.foresight.measured import Measurement
    from clusterjobs.runs.pipeline import Project
    from clusterjobs.runs.sweep_project import SweepProject


WRONG_FILES = "prices or measurements of the site cannot be read"


def foresight_of(project: Project, with_nearest: bool = True) -> Foresight | Unknown:
    """The foresight, or why there is none."""
    try:
        return _foresight_of(project, with_nearest)
    except InputError as error:  # a wrong price or measurement stops no job
        return Unknown(WRONG_FILES, problems=_as_warnings(error))


def _foresight_of(project: Project, with_nearest: bool) -> Foresight | Unknown:
    """The same. Raises InputError for the site's own files."""
    measured = _measurements(project.site)
    facts, configs = project.source.facts, project.configs
    job = foreseen_job(project.plan, project.spec, facts, configs, with_cpus=bool(measured))
    if isinstance(job, Unknown):
        return job
    from clusterjobs.foresight.foresee import foresee

    found = foresee(job, project.inputs.sites, measured, with_nearest)
    if found.measured is None and not job.gpu.family and job.gpu.name.startswith(CPU):
        return Unknown(f"{job.nodes.node_type} has no GPU, and nothing was measured on it")
    return found


def _measurements(site: SiteFolders) -> tuple[Measurement, ...]:
    if not site.files(MEASUREMENTS_FILE):
        return ()
    from clusterjobs.foresight.measured import read_measurements

    return read_measurements(site)


def foresight_block(project: Project) -> Iterator[str]:
    """The block of `plan`; nothing if the spec says nothing of a model."""
    found = foresight_of(project)
    if not isinstance(found, Unknown):
        from clusterjobs.foresight.text import foresight_text

        yield foresight_text(found)
        return
    show_problems(found.problems)
    if project.spec.experiment.model and project.plan.placement.node_type.gpus:
        hint = f" ({found.hint})" if found.hint else ""
        yield f"foresight\n  unknown: {found.why}{hint}"


def foresight_json(project: Project) -> dict[str, Any] | None:
    """The value of `foresight` in `plan --json`; null if nothing can be predicted."""
    found = foresight_of(project)
    if isinstance(found, Unknown):
        show_problems(found.problems)
        return None
    from clusterjobs.foresight.foresee import foresight_data

    return foresight_data(found)


def warnings_of(project: Project, strict: bool = False) -> tuple[Problem, ...]:
    """What foresight warns of. With `strict`, a job that does not fit is an error."""
    found = foresight_of(project, with_nearest=False)
    if isinstance(found, Unknown):
        return found.problems
    from clusterjobs.foresight.text import foresight_warnings

    return tuple(foresight_warnings(found, project.spec, strict))


def warnings_of_sweep(project: SweepProject, strict: bool = False) -> tuple[Problem, ...]:
    """The same for all points; one that some points have names them."""
    from clusterjobs.foresight.foresee import foresee
    from clusterjobs.foresight.text import foresight_warnings

    facts, sites = project.source.facts, project.inputs.sites
    points: dict[Problem, list[str]] = {}
    try:
        measured = _measurements(project.site)
        once = functools.cache(
            lambda job: foresee(job, sites, measured, with_nearest=False)
        )  # most points are alike
        for point, spec in zip(project.points, project.specs, strict=True):
            job = foreseen_job(point.plan, spec, facts, project.configs)
            if not isinstance(job, Unknown):
                for one in foresight_warnings(once(job), spec, strict):
                    points.setdefault(one, []).append(point.point.name)
    except InputError as error:
        return _as_warnings(error)
    every = len(project.points)
    return tuple(
        one if len(names) == every else one._replace(points=tuple(names))
        for one, names in points.items()
    )


def _as_warnings(error: InputError) -> tuple[Problem, ...]:
    return tuple(one._replace(warning=True) for one in error.problems)
