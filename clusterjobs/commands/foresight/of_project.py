"""The foresight of a project: reads what lies beside the spec, and joins it with the plan."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from clusterjobs.commands.foresight.data import foresight_data
from clusterjobs.commands.foresight.foresee import Foresight, foresee
from clusterjobs.commands.foresight.job import Unknown, foreseen_job
from clusterjobs.commands.foresight.measurements import read_measurements
from clusterjobs.commands.foresight.text import foresight_text
from clusterjobs.commands.foresight.warnings import foresight_warnings
from clusterjobs.errors import InputError, Problem

if TYPE_CHECKING:
    from clusterjobs.commands.pipeline import Project


def foresight_of(project: Project) -> Foresight | Unknown:
    """The foresight, or why there is none. Raises InputError for the site's own files."""
    job = foreseen_job(project.plan, project.spec, project.source.facts)
    if isinstance(job, Unknown):
        return job
    return foresee(job, project.inputs.sites, read_measurements(project.site))


def foresight_block(project: Project) -> Iterator[str]:
    """The block of `plan`; nothing if the spec says nothing of a model."""
    found = foresight_of(project)
    if isinstance(found, Foresight):
        yield foresight_text(found)
    elif found.hint and project.spec.experiment.model:
        yield f"foresight\n  unknown: {found.why} ({found.hint})"


def foresight_json(project: Project) -> dict[str, Any] | None:
    """The value of `foresight` in `plan --json`; null if nothing can be predicted."""
    found = foresight_of(project)
    return foresight_data(found) if isinstance(found, Foresight) else None


def warnings_of(project: Project, strict: bool = False) -> tuple[Problem, ...]:
    """What foresight warns of. With `strict`, a job that does not fit is an error."""
    try:
        found = foresight_of(project)
    except InputError as error:
        return error.problems
    if isinstance(found, Unknown):
        return ()
    return tuple(foresight_warnings(found, project.spec, strict))
