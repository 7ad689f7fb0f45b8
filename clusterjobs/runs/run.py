"""A run: one job, or the jobs of a sweep, read and planned; and the texts of its files."""

from __future__ import annotations

import csv
import functools
import io
import json
import pathlib
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from clusterjobs.clusters.source import ClusterFiles, ClusterSource
from clusterjobs.errors import Found, InputError, Problem, in_order, of_points
from clusterjobs.plugins import PlannedJob, check_plans
from clusterjobs.runs.content import OwnConfigs
from clusterjobs.runs.warnings import warnings_here
from clusterjobs.sections.context import PointArray, PointPlan, PointTable
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.render import Inputs, Script, joined_outputs, render_script
from clusterjobs.sites.folders import SiteFolders
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.sweep import Sweep
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.spec.references import as_text

if TYPE_CHECKING:
    from clusterjobs.spec.need_graph import NeedGraph


# ------------------------------------------------------------------ files
# The files of a render: the scripts with their points, and points.csv of a sweep.


POINTS = "points.csv"


class PointTask(NamedTuple):
    """A point in a script. `task`: the index in the array; `key`: `3`, or `3.1` for slot 1 of it;
    "" in a script that is no array."""

    key: str
    task: int
    point: PointPlan


class RunScript(NamedTuple):
    """One script of a run: the file's name, the array that it runs, and the text."""

    file: str
    array: PointArray
    script: Script

    @property
    def text(self) -> str:
        return self.script.text

    @property
    def is_array(self) -> bool:
        """Whether it is a job array; else it runs the only point that it has."""
        return self.array.table.is_array

    @property
    def tasks(self) -> tuple[PointTask, ...]:
        return tasks_of(self.array)


def tasks_of(array: PointArray) -> tuple[PointTask, ...]:
    """The points of an array with their tasks."""
    table = array.table
    keys = table.keys if table.is_array else ("",) * len(table.points)
    return tuple(map(PointTask, keys, table.indexes, table.points))


def script_names(count: int) -> tuple[str, ...]:
    return ("job.sh",) if count == 1 else tuple(f"job-{n}.sh" for n in range(1, count + 1))


def points_csv(tasks: Sequence[tuple[str, PointTask]]) -> str:
    """The table of the points as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(point_rows(tasks))
    return text.getvalue()


def point_rows(tasks: Sequence[tuple[str, PointTask]]) -> Iterator[tuple[str, ...]]:
    """Index, name, script, task, and a column for each swept key; the titles first."""
    keys = list(dict.fromkeys(key for _, task in tasks for key in task.point.point.values))
    yield ("index", "name", "script", "task", *keys)
    for file, task in tasks:
        point = task.point.point
        values = (shown(point.values[key]) if key in point.values else "" for key in keys)
        yield (str(point.index), point.name, file, task.key, *values)


def shown(value: Any) -> str:
    """A swept value as in `--set`; lists and mappings as JSON."""
    return json.dumps(value) if isinstance(value, (dict, list)) else as_text(value)


MAX_ARRAY_SIZE = 1001  # of a Slurm with its default settings: one more than the largest index


@dataclass(frozen=True)
class Run:
    """One job, or the jobs of a sweep, with the cluster; read and planned.

    `specs` and `points` are in the same order; a run without a sweep has one point. `sweep`: None
    without one, and for a single point of it. `site`: the site folders that were used. `needs`: the
    specs that it needs; None without any. `configs`: the config files that it names. `file`: the
    spec's.
    """

    specs: tuple[LoadedSpec, ...]
    points: tuple[PointPlan, ...]
    inputs: Inputs
    source: ClusterSource
    site: SiteFolders
    sweep: Sweep | None = None
    needs: NeedGraph | None = None
    configs: OwnConfigs | None = None
    max_array_size: int = MAX_ARRAY_SIZE
    file: pathlib.Path = pathlib.Path()

    def fitting(self, max_array_size: int | None) -> Run:
        """The run for a Slurm with this MaxArraySize: None if unknown, 0 if it has no arrays."""
        if max_array_size is None or max_array_size >= self.max_array_size:
            return self
        return replace(self, max_array_size=max(1, max_array_size))

    @property
    def plan(self) -> Plan:
        """The plan of the first point."""
        return self.points[0].plan

    @property
    def loaded(self) -> LoadedSpec:
        """The spec of the first point, with its texts and origins."""
        return self.specs[0]

    @property
    def spec(self) -> Experiment:
        """The spec of the first point: for keys that no point may change."""
        return self.specs[0].spec

    @property
    def name(self) -> str:
        """The name of the sweep, and of its folder below `logs`; without a sweep, of the job."""
        return self.plan.points.name if self.plan.points else self.plan.job.name

    @property
    def indexes(self) -> dict[str, int]:
        """The name of each point -> its index."""
        return {one.point.name: one.point.index for one in self.points}

    def at(self, pattern: str) -> Run:
        """A run of one point. `pattern`: its index, name, or a part of the name."""
        from clusterjobs.runs.jobs.patterns import one_point  # most runs do not need it

        number = list(self.indexes).index(one_point(pattern, self.indexes))
        specs, points = self.specs[number : number + 1], self.points[number : number + 1]
        return replace(self, specs=specs, points=points, sweep=None, needs=None)

    # ------------------------------------------------------------------ problems

    @functools.cached_property
    def fitted(self) -> ClusterFiles:
        """The files of the cluster's source for all points. Raises InputError."""
        links = dict.fromkeys(link for one in self.points for link in one.plan.links)
        try:
            found = self.source.fit(tuple(links))
        except InputError as error:
            raise InputError([*self._of_the_spec, *error.problems]) from None
        if any(not problem.warning for problem in found.problems):
            raise InputError([*self._of_the_spec, *found.problems])
        return found

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Warnings of the plans, of the cluster's files, and about inputs that are missing here."""
        return (*self._of_the_spec, *(one for one in self.fitted.problems if not one.info))

    @property
    def notes(self) -> tuple[Problem, ...]:
        return tuple(one for one in self.fitted.problems if one.info)

    def check_strict(self) -> None:
        """Raise InputError if a point does not fit, which is else a warning."""
        found = check_plans(self.planned_jobs, strict=True)
        if any(not one.warning for one in found):
            raise InputError(in_order([*self.plan_warnings, *found]))

    @functools.cached_property
    def plan_warnings(self) -> tuple[Problem, ...]:
        """The warnings of the plans, of this machine and about limits of arrays, each once."""
        here = warnings_here(self.points, self.inputs.origin)
        found = [
            Found(one.point.name, (*one.plan.warnings, *problems))
            for one, problems in zip(self.points, here, strict=True)
        ]
        return (*of_points(found, len(found)), *self._of_arrays())

    @functools.cached_property
    def _of_the_spec(self) -> tuple[Problem, ...]:
        return (*self.plan_warnings, *check_plans(self.planned_jobs))

    def _of_arrays(self) -> Iterator[Problem]:
        """Notes about limits that count for each array, if the sweep has several."""
        if self.sweep is None or len(self.arrays) == 1:
            return
        hint = "Slurm has no common limit for several jobs: divide it, or wait for one of them"
        held = f"holds for each of the {len(self.arrays)} jobs of this sweep"
        if not any(one.table.is_array for one in self.arrays):
            held, hint = "has no effect: each point is a job of its own", "remove it"
        limits = {"max_running": self.sweep.max_running, "max_failed": self.sweep.max_failed}
        for key, limit in limits.items():
            where = self.loaded.source.locate(("sweep", key))
            if limit and where:
                yield Problem(f"{key}: {limit} {held}", where, f"sweep.{key}", hint, warning=True)

    # ------------------------------------------------------------------ files

    @property
    def script_names(self) -> tuple[str, ...]:
        return script_names(len(self.arrays))

    @functools.cached_property
    def arrays(self) -> tuple[PointArray, ...]:
        return self._arrays(self.points)

    @functools.cached_property
    def tasks(self) -> tuple[tuple[str, PointTask], ...]:
        """The script and the task of each point, in the order of the points."""
        rows = [
            (file, task)
            for file, array in zip(self.script_names, self.arrays, strict=True)
            for task in tasks_of(array)
        ]
        return tuple(sorted(rows, key=lambda row: row[1].point.point.index))

    def _arrays(self, points: Sequence[PointPlan]) -> tuple[PointArray, ...]:
        if self.sweep is None:
            return (PointArray(self.plan, PointTable((), (), self.points, (0,)), ""),)
        from clusterjobs.sections.points.arrays import point_arrays

        code = "\n".join(one.text for one in self.inputs.templates.files)
        return point_arrays(points, self.max_array_size, not self.sweep.array, code)

    def scripts(self, names: Collection[str] | None = None) -> tuple[RunScript, ...]:
        """The scripts that run the points of these names, and perhaps others; None: all points."""
        is_packed = self.sweep is not None and (self.sweep.per_node or 1) > 1
        if names is None or not is_packed:  # a packed task runs all of its points
            return self._scripts
        return self._rendered(self._arrays([p for p in self.points if p.point.name in names]))

    @functools.cached_property
    def _scripts(self) -> tuple[RunScript, ...]:
        return self._rendered(self.arrays)

    def _rendered(self, arrays: Sequence[PointArray]) -> tuple[RunScript, ...]:
        scripts = tuple(
            RunScript(file, array, render_script(array.plan, self.inputs, array.table))
            for file, array in zip(script_names(len(arrays)), arrays, strict=True)
        )
        if self.inputs.templates.files:
            self._check(scripts)
        return scripts

    def _check(self, scripts: Sequence[RunScript]) -> None:
        """Raise InputError if a site's templates break what every script has to keep."""
        from clusterjobs.script.site.invariants import Scripts  # only with a site's templates
        from clusterjobs.script.site.origin import check_bash

        if self.inputs.templates.overrides():  # what is inserted has been checked alone
            check_bash([one.text for one in scripts], self.inputs.templates)
        problems: dict[Problem, None] = {}
        for one in scripts:
            secrets = tuple(secret.name for secret in one.array.plan.environment.secrets)
            texts = (one.text, one.script.packaged_text)
            found = Scripts(*texts, secrets, self.inputs.templates).problems()
            problems |= dict.fromkeys(found)
        if any(not one.warning for one in problems):  # `templates check` shows warnings
            raise InputError(in_order(problems))

    @property
    def planned_jobs(self) -> list[PlannedJob]:
        """What plug-ins get of its points."""
        return [
            PlannedJob(
                *(point.plan, spec, self.source, self.site, self.inputs),
                *(self.configs.texts(spec) if self.configs else {}, point.content),
            )
            for point, spec in zip(self.points, self.specs, strict=True)
        ]

    def outputs(self) -> dict[str, str]:
        """The texts of all files of a render. Raises InputError for missing site values."""
        return dict(self._outputs)

    def files_that_run(self) -> dict[str, str]:
        """The written files without the manifest. Raises InputError for missing site values."""
        return self._joined(with_manifest=False)

    @functools.cached_property
    def _outputs(self) -> dict[str, str]:
        return self._joined(with_manifest=True)

    def _joined(self, with_manifest: bool) -> dict[str, str]:
        further = dict(self.fitted.files)
        scripts = self.scripts()
        if self.sweep:
            further[POINTS] = points_csv(self.tasks)
        made = {one.file: (one.array.plan, one.script) for one in scripts}
        return joined_outputs(made, further, self.inputs, with_manifest)
