"""The specs of a command's targets, each read and planned once: a sweep may have a thousand points.

A spec that cannot be planned today gives nothing, since its job may have run long ago.
"""

from __future__ import annotations

import functools
import pathlib
from typing import NamedTuple

from clusterjobs.commands.foresight.job import ForeseenJob, Unknown, foreseen_job
from clusterjobs.commands.pipeline import Project, load
from clusterjobs.commands.report.pattern_limit import LimitedPattern
from clusterjobs.commands.spec_files import SpecFiles
from clusterjobs.errors import InputError
from clusterjobs.frameworks.base import Shape
from clusterjobs.jobs.point_folders import digest_of
from clusterjobs.report.formats import Format, all_formats
from clusterjobs.report.formats.own_pattern import OwnPattern
from clusterjobs.spec.report_keys import Report


class Planned(NamedTuple):
    """What a spec says of its job today. `batch` of the spec; `sites` know the prices.

    `shape`: the ranks and where they run.
    `content`: the hash of all that decides what the ranks compute.
    """

    content: str
    shape: Shape
    batch: int | None
    job: ForeseenJob | Unknown
    sites: tuple[tuple[str, str], ...]


class Specs:
    """Those that one command has read so far."""

    def __init__(self) -> None:
        self._patterns = functools.cache(_patterns)
        self._planned = functools.cache(_planned)

    def formats(self, spec: pathlib.Path | None) -> list[Format]:
        """New ones for a log. Raises InputError for a spec that is wrong."""
        return formats_of(self._patterns(spec) if spec else None)

    def has_pattern(self, spec: pathlib.Path | None) -> bool:
        """Whether a spec says how its log is to be read."""
        return spec is not None and self._patterns(spec) is not None

    def planned(self, spec: pathlib.Path, point: str | None) -> Planned | None:
        """Of a sweep, that of the point with this name."""
        return self._planned(spec).get(digest_of(point) if point else "")


def formats_of(own: Report | None) -> list[Format]:
    """The formats to look for: the patterns of the spec's key `report` before all others."""
    return [*([LimitedPattern(OwnPattern(own.pattern, own.values))] if own else []), *all_formats()]


def _patterns(spec: pathlib.Path) -> Report | None:
    return SpecFiles(spec).load_points()[0].experiment.report


def _planned(spec: pathlib.Path) -> dict[str, Planned]:
    """By the digest of a point, "" for a spec without a sweep."""
    try:
        project = load(spec, (), to_write=False)
    except InputError:
        return {}
    if isinstance(project, Project):
        plans = [("", project.inputs.content, project.plan, project.spec)]
    else:
        plans = [
            (digest_of(one.point.name), one.content, one.plan, loaded)
            for one, loaded in zip(project.points, project.specs, strict=True)
        ]
    facts, sites = project.source.facts, project.inputs.sites
    return {
        digest: Planned(
            content,
            plan.placement.shape,
            loaded.experiment.batch.global_ if loaded.experiment.batch else None,
            foreseen_job(plan, loaded, facts, project.configs, True),
            sites,
        )
        for digest, content, plan, loaded in plans
    }
