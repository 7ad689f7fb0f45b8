"""A sweep that is read and planned: its points, and the scripts that run them.

It knows what is checked for each point and what once for all; it must not know Slurm's queue.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from clusterjobs.cluster.source import ClusterFiles, ClusterSource
from clusterjobs.commands.missing import missing_inputs
from clusterjobs.commands.pipeline import (
    Project,
    cluster_of,
    plan_spec,
    read_configs,
    render_inputs,
    unfit_problems,
)
from clusterjobs.commands.policies import Policies
from clusterjobs.commands.script_syntax import check_bash
from clusterjobs.commands.shared_logs import fixed_logs, unsafe_logs
from clusterjobs.commands.site_folders import SiteFolders
from clusterjobs.commands.spec_files import SpecFiles
from clusterjobs.commands.sweep_files import (
    POINTS,
    SweepScript,
    SweepTask,
    points_csv,
    script_names,
    tasks_of,
)
from clusterjobs.commands.sweep_folder import sweep_name
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.point_arrays import PointArray, PointPlan, point_arrays
from clusterjobs.plan.resolve import config_files
from clusterjobs.render.inputs import Inputs
from clusterjobs.render.outputs import joined_outputs
from clusterjobs.render.script import render_script
from clusterjobs.spec.content import content_hash
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import Spec
from clusterjobs.spec.point_patterns import one_point
from clusterjobs.spec.point_problems import Found, of_points
from clusterjobs.spec.sweep_keys import Sweep

if TYPE_CHECKING:
    from clusterjobs.plan.policy_values import User
    from clusterjobs.spec.need_graph import NeedGraph

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
        return (*self.plan_warnings, *(one for one in self.fitted.problems if not one.info))

    @property
    def plan_warnings(self) -> tuple[Problem, ...]:
        """Those of the plans, each once, and of the arrays."""
        return (*self.point_warnings, *self._of_arrays)

    @property
    def notes(self) -> tuple[Problem, ...]:
        """What is to be known of the cluster's files, by who writes or checks them."""
        return tuple(one for one in self.fitted.problems if one.info)

    @property
    def _of_arrays(self) -> tuple[Problem, ...]:
        limit, count = self.sweep.max_running, len(self.arrays)
        if not limit or count == 1:
            return ()
        what = f"max_running: {limit} holds for each of the {count} jobs of this sweep"
        hint = "Slurm has no common limit for several jobs: divide it, or wait for one of them"
        where = self.specs[0].source.locate(("sweep", "max_running"))
        return (Problem(what, where, "sweep.max_running", hint, warning=True),)

    @functools.cached_property
    def arrays(self) -> tuple[PointArray, ...]:
        return self._arrays(self.points, MAX_ARRAY_SIZE)

    @functools.cached_property
    def tasks(self) -> tuple[tuple[str, SweepTask], ...]:
        """The script and the task of each point, in the order of the points."""
        rows = [
            (file, task)
            for file, array in zip(self.script_names, self.arrays, strict=True)
            for task in tasks_of(array)
        ]
        return tuple(sorted(rows, key=lambda row: row[1].point.point.index))

    def _arrays(self, points: Sequence[PointPlan], max_array_size: int) -> tuple[PointArray, ...]:
        return point_arrays(points, max_array_size, separate=not self.sweep.array)

    def scripts(
        self, names: Collection[str] | None = None, max_array_size: int | None = None
    ) -> tuple[SweepScript, ...]:
        """The scripts that run the points of these names, and perhaps others; None: all points.

        `max_array_size`: that of the running Slurm, if it is known.
        """
        size = min(max_array_size or MAX_ARRAY_SIZE, MAX_ARRAY_SIZE)
        points = self.points
        if names is not None and self.sweep.per_node:  # a task runs all of its points
            points = tuple(one for one in points if one.point.name in names)
        if len(points) == len(self.points) and size == MAX_ARRAY_SIZE:
            return self._scripts
        return self._rendered(self._arrays(points, size))

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
        return Project(plan, self.inputs, self.source, spec, self.site)

    def outputs(self) -> dict[str, str]:
        """The texts of all files of a render. Raises InputError for missing site values."""
        scripts = self.scripts()
        further = {**self.fitted.files, POINTS: points_csv(self.tasks)}
        if self.inputs.templates.overrides():
            check_bash([one.text for one in scripts], self.inputs.templates)
        made = {one.file: (one.array.plan, one.script) for one in scripts}
        return joined_outputs(made, further, self.inputs)


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
    return SweepProject(tuple(specs), points, warnings, inputs, cluster.source, files.site)


class _Planner:
    """Plans the points. What they have in common is looked up once."""

    def __init__(self, files: SpecFiles, source: ClusterSource, policies: Policies) -> None:
        self._files, self._source, self._policies = files, source, policies
        self._configs: dict[object, Mapping[str, str]] = {}

    def plans(
        self, specs: Sequence[Spec], broken: Sequence[Problem], to_write: bool
    ) -> tuple[PointPlan, ...]:
        """The plan of each point. Raises InputError with the problems of all, `broken` included."""
        points, wrong = [], []
        for one in specs:
            assert one.point
            try:
                plan = plan_spec(one, self._source, self._policies, self._config_texts(one))
                points.append(PointPlan(one.point, plan, content_hash(one.expanded)))
            except InputError as error:
                wrong.append(Found(one.point.name, error.problems))
        if wrong or broken:
            unfit = unfit_problems(self._source) if to_write else ()
            total = len(specs) + bool(broken)
            raise InputError(in_order([*broken, *of_points(wrong, total), *unfit]))
        return tuple(points)

    def _config_texts(self, spec: Spec) -> Mapping[str, str]:
        key = (spec.experiment.workdir, config_files(spec))
        if key not in self._configs:
            self._configs[key] = read_configs(spec, self._files.spec)
        return self._configs[key]

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
