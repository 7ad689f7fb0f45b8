"""A sweep that is read and planned: its points, and the scripts that run them.

It knows which files a sweep has; it must not know how points are planned, nor Slurm's queue.
"""

from __future__ import annotations

import csv
import functools
import io
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from clusterjobs.clusters.source import ClusterFiles, ClusterSource
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.runs.choose_jobs import one_point
from clusterjobs.runs.missing_inputs import fixed_logs, missing_inputs, unsafe_logs
from clusterjobs.runs.pipeline import Project, cluster_of, plan_spec, render_inputs, unfit_problems
from clusterjobs.runs.spec_files import OwnConfigs, SpecFiles
from clusterjobs.runs.submit.lock import sweep_name
from clusterjobs.script.site.origin import check_bash
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.points.arrays import PointArray, PointPlan, point_arrays
from clusterjobs.sections.render import Inputs, Script, joined_outputs, render_script
from clusterjobs.sites.folders import SiteFolders
from clusterjobs.sites.policy_files import Policies
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.sweep import Sweep
from clusterjobs.spec.load import Spec
from clusterjobs.spec.references import as_text
from clusterjobs.spec.sweep import Found, of_points

if TYPE_CHECKING:
    from clusterjobs.sites.policy_check import User
    from clusterjobs.spec.need_graph import NeedGraph


# ------------------------------------------------------------------ files
#
# The files of a sweep's render: its scripts with their points, and points.csv.


POINTS = "points.csv"


class SweepTask(NamedTuple):
    """A point in a script. `task`: the index in the array; `key`: `3`, or `3.1` for slot 1 of it;
    "" in a script that is no array."""

    key: str
    task: int
    point: PointPlan


class SweepScript(NamedTuple):
    """One script of a sweep: the file's name, the array that it runs, and the text."""

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
    def tasks(self) -> tuple[SweepTask, ...]:
        """The points with their tasks."""
        return tasks_of(self.array)


def tasks_of(array: PointArray) -> tuple[SweepTask, ...]:
    """The points of an array with their tasks."""
    table = array.table
    keys = table.keys if table.is_array else ("",) * len(table.points)
    return tuple(map(SweepTask, keys, table.indexes, table.points))


def script_names(count: int) -> tuple[str, ...]:
    """`job.sh`, or `job-1.sh`, `job-2.sh` ..."""
    return ("job.sh",) if count == 1 else tuple(f"job-{n}.sh" for n in range(1, count + 1))


def points_csv(tasks: Sequence[tuple[str, SweepTask]]) -> str:
    """The table of the points as CSV."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows(point_rows(tasks))
    return text.getvalue()


def point_rows(tasks: Sequence[tuple[str, SweepTask]]) -> Iterator[tuple[str, ...]]:
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
class SweepProject:
    """A sweep with its cluster, read and planned.

    `specs` and `points` are in the same order. `point_warnings`: of the points' plans. `site`: the
    site folders that were used. `needs`: the specs that it needs; None without any.
    """

    specs: tuple[Spec, ...]
    points: tuple[PointPlan, ...]
    point_warnings: tuple[Problem, ...]
    inputs: Inputs
    source: ClusterSource
    site: SiteFolders
    needs: NeedGraph | None = None
    configs: OwnConfigs | None = None
    max_array_size: int = MAX_ARRAY_SIZE

    def fitting(self, max_array_size: int | None) -> SweepProject:
        """The sweep for a Slurm with this MaxArraySize: None if unknown, 0 if it has no arrays."""
        if max_array_size is None or max_array_size >= self.max_array_size:
            return self
        return replace(self, max_array_size=max(1, max_array_size))

    @property
    def plan(self) -> Plan:
        """That of the first point."""
        return self.points[0].plan

    @property
    def spec(self) -> Spec:
        """That of the first point."""
        return self.specs[0]

    @property
    def script_names(self) -> tuple[str, ...]:
        """`job.sh`, or `job-1.sh`, `job-2.sh` ..."""
        return script_names(len(self.arrays))

    @property
    def experiment(self) -> Experiment:
        """That of the first point: for what no point may change."""
        return self.specs[0].experiment

    @property
    def sweep(self) -> Sweep:
        assert self.experiment.sweep
        return self.experiment.sweep

    @property
    def name(self) -> str:
        """The name of the sweep, and of its folder below `logs`."""
        return sweep_name(self.experiment)

    @functools.cached_property
    def fitted(self) -> ClusterFiles:
        """The files of the cluster's source for all points. Raises InputError."""
        links = dict.fromkeys(link for one in self.points for link in one.plan.links)
        try:
            found = self.source.fit(tuple(links))
        except InputError as error:
            raise InputError([*self.point_warnings, *error.problems]) from None
        if any(not problem.warning for problem in found.problems):
            raise InputError([*self.point_warnings, *found.problems])
        return found

    @property
    def warnings(self) -> tuple[Problem, ...]:
        """Warnings of the plans, each once, and of the cluster's files."""
        from clusterjobs.foresight.of_project import warnings_of_sweep

        own = (*self.plan_warnings, *warnings_of_sweep(self))
        return (*own, *(one for one in self.fitted.problems if not one.info))

    def check_strict(self) -> None:
        """Raise InputError if a point does not fit, which is else a warning."""
        from clusterjobs.foresight.of_project import warnings_of_sweep

        found = warnings_of_sweep(self, strict=True)
        if any(not one.warning for one in found):
            raise InputError(in_order([*self.plan_warnings, *found]))

    @property
    def plan_warnings(self) -> tuple[Problem, ...]:
        """Those of the plans, each once, and of the arrays."""
        return (*self.point_warnings, *self._of_arrays)

    @property
    def notes(self) -> tuple[Problem, ...]:
        """Notes about the cluster's files."""
        return tuple(one for one in self.fitted.problems if one.info)

    @property
    def _of_arrays(self) -> tuple[Problem, ...]:
        """Notes about limits that count for each array, if the sweep has several."""
        if len(self.arrays) == 1:
            return ()
        hint = "Slurm has no common limit for several jobs: divide it, or wait for one of them"
        held = f"holds for each of the {len(self.arrays)} jobs of this sweep"
        if not any(one.table.is_array for one in self.arrays):
            held, hint = "has no effect: each point is a job of its own", "remove it"
        limits = {"max_running": self.sweep.max_running, "max_failed": self.sweep.max_failed}
        source = self.specs[0].source
        return tuple(
            Problem(f"{key}: {limit} {held}", where, f"sweep.{key}", hint, warning=True)
            for key, limit in limits.items()
            if limit and (where := source.locate(("sweep", key)))
        )

    @functools.cached_property
    def arrays(self) -> tuple[PointArray, ...]:
        return self._arrays(self.points)

    @functools.cached_property
    def tasks(self) -> tuple[tuple[str, SweepTask], ...]:
        """The script and the task of each point, in the order of the points."""
        rows = [
            (file, task)
            for file, array in zip(self.script_names, self.arrays, strict=True)
            for task in tasks_of(array)
        ]
        return tuple(sorted(rows, key=lambda row: row[1].point.point.index))

    def _arrays(self, points: Sequence[PointPlan]) -> tuple[PointArray, ...]:
        code = "\n".join(one.text for one in self.inputs.templates.files)
        return point_arrays(points, self.max_array_size, not self.sweep.array, code)

    def scripts(self, names: Collection[str] | None = None) -> tuple[SweepScript, ...]:
        """The scripts that run the points of these names, and perhaps others; None: all points."""
        is_packed = (self.sweep.per_node or 1) > 1  # a task runs all of its points
        if names is None or not is_packed:
            return self._scripts
        return self._rendered(self._arrays([p for p in self.points if p.point.name in names]))

    @functools.cached_property
    def _scripts(self) -> tuple[SweepScript, ...]:
        return self._rendered(self.arrays)

    def _rendered(self, arrays: Sequence[PointArray]) -> tuple[SweepScript, ...]:
        return tuple(
            SweepScript(file, array, render_script(array.plan, self.inputs, array.table))
            for file, array in zip(script_names(len(arrays)), arrays, strict=True)
        )

    def at(self, pattern: str) -> Project:
        """One point as a project of its own. `pattern`: its index, name, or a part of the name."""
        name = one_point(pattern, {one.point.name: one.point.index for one in self.points})
        number = next(n for n, one in enumerate(self.points) if one.point.name == name)
        plan, spec = self.points[number].plan, self.specs[number]
        return Project(plan, self.inputs, self.source, spec, self.site, configs=self.configs)

    def outputs(self) -> dict[str, str]:
        """The texts of all files of a render. Raises InputError for missing site values."""
        scripts = self.scripts()
        further = {**self.fitted.files, POINTS: points_csv(self.tasks)}
        if self.inputs.templates.overrides():
            check_bash([one.text for one in scripts], self.inputs.templates)
        made = {one.file: (one.array.plan, one.script) for one in scripts}
        return joined_outputs(made, further, self.inputs)


# ------------------------------------------------------------------ plans the points of a sweep


def plan_points(
    specs: Sequence[Spec],
    broken: Sequence[Problem],
    files: SpecFiles,
    settings: Sequence[str],
    to_write: bool,
    user: User | None,
) -> SweepProject:
    """Make the plans of the points. Raises InputError; `broken`: problems of further points.

    The other arguments as of `load_project`.
    """
    cluster = cluster_of(specs[0], files)
    planner = _Planner(files, cluster.source, Policies(files.site, user))
    points = planner.plans(specs, broken, to_write)
    inputs = render_inputs(specs[0], files, cluster, settings)
    warnings = planner.warnings(points)
    return SweepProject(
        tuple(specs),
        points,
        warnings,
        inputs,
        cluster.source,
        files.site,
        configs=OwnConfigs(files.spec),
    )


class _Planner:
    """Plans the points. What they have in common is looked up once."""

    def __init__(self, files: SpecFiles, source: ClusterSource, policies: Policies) -> None:
        self._files, self._source, self._policies = files, source, policies
        self._configs = OwnConfigs(files.spec)

    def plans(
        self, specs: Sequence[Spec], broken: Sequence[Problem], to_write: bool
    ) -> tuple[PointPlan, ...]:
        """The plan of each point. Raises InputError with the problems of all, `broken` included."""
        points, found, failed = [], [], bool(broken)
        for one in specs:
            assert one.point
            try:
                plan = plan_spec(one, self._source, self._policies, self._configs.texts(one))
                points.append(PointPlan(one.point, plan, self._configs.content(one)))
                found.append(Found(one.point.name, plan.warnings))
            except InputError as error:
                found.append(Found(one.point.name, error.problems))
                failed = True
        if failed:
            unfit = unfit_problems(self._source) if to_write else ()
            raise InputError(in_order([*broken, *of_points(found, len(specs)), *unfit]))
        return tuple(points)

    def warnings(self, points: Sequence[PointPlan]) -> tuple[Problem, ...]:
        """Those of the plans, and about inputs and folders that are missing or unsafe here."""
        of_inputs: dict[object, tuple[Problem, ...]] = {}
        of_logs: dict[str, tuple[Problem, ...]] = {}
        found = []
        for one in points:
            plan = one.plan
            inputs, logs = (plan.job.workdir, plan.staging.inputs), fixed_logs(plan)
            if inputs not in of_inputs:
                of_inputs[inputs] = missing_inputs(plan)
            if logs not in of_logs:
                of_logs[logs] = unsafe_logs(plan)
            problems = (*plan.warnings, *of_inputs[inputs], *of_logs[logs])
            found.append(Found(one.point.name, problems))
        return tuple(of_points(found, len(points)))
