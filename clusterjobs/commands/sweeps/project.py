"""A sweep that is read and planned: its points, and the scripts that run them.

It knows which files a sweep has; it must not know how points are planned, nor Slurm's queue.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from clusterjobs.cluster.source import ClusterFiles, ClusterSource
from clusterjobs.commands.own_configs import OwnConfigs
from clusterjobs.commands.pipeline import Project
from clusterjobs.commands.script_syntax import check_bash
from clusterjobs.commands.site_folders import SiteFolders
from clusterjobs.commands.submit.sweep_folder import sweep_name
from clusterjobs.commands.sweeps.files import (
    POINTS,
    SweepScript,
    SweepTask,
    points_csv,
    script_names,
    tasks_of,
)
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.point_arrays import PointArray, PointPlan, point_arrays
from clusterjobs.render.inputs import Inputs
from clusterjobs.render.outputs import joined_outputs
from clusterjobs.render.script import render_script
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import Spec
from clusterjobs.spec.point_patterns import one_point
from clusterjobs.spec.sweep_keys import Sweep

if TYPE_CHECKING:
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
        from clusterjobs.commands.foresight.of_project import warnings_of_sweep

        own = (*self.plan_warnings, *warnings_of_sweep(self))
        return (*own, *(one for one in self.fitted.problems if not one.info))

    def check_strict(self) -> None:
        """Raise InputError if a point does not fit, which is else a warning."""
        from clusterjobs.commands.foresight.of_project import warnings_of_sweep

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
