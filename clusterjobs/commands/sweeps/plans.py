"""Plans the points of a sweep.

It knows what is checked for each point and what once for all; it must not know their scripts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from clusterjobs.cluster.source import ClusterSource
from clusterjobs.commands.missing import missing_inputs
from clusterjobs.commands.own_configs import OwnConfigs
from clusterjobs.commands.pipeline import cluster_of, render_inputs
from clusterjobs.commands.plan_spec import plan_spec, unfit_problems
from clusterjobs.commands.policies import Policies
from clusterjobs.commands.shared_logs import fixed_logs, unsafe_logs
from clusterjobs.commands.spec_files import SpecFiles
from clusterjobs.commands.sweeps.project import SweepProject
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.plan.point_arrays import PointPlan
from clusterjobs.spec.load import Spec
from clusterjobs.spec.point_problems import Found, of_points

if TYPE_CHECKING:
    from clusterjobs.plan.policy_values import User


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
