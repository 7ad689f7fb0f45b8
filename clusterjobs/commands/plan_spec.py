"""Makes the plan of a spec that is loaded: its code, the policies and its own configs are checked.

It must not know where specs and clusters come from, nor what is rendered.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.cluster.source import ClusterSource
from clusterjobs.commands.policies import Policies
from clusterjobs.commands.shell_check import code_problems
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.resolve import resolve
from clusterjobs.spec.load import Spec


def plan_spec(
    loaded: Spec, source: ClusterSource, policies: Policies, configs: Mapping[str, str]
) -> Plan:
    """The plan. Raises InputError with the problems of code, policies and the spec together.

    `configs`: see `commands/own_configs.py`.
    """
    problems, plan = [*code_problems(loaded)], None
    try:
        plan = resolve(loaded, source.facts, configs)
    except InputError as error:
        problems += error.problems
    broken = policies.check(loaded, plan, source.facts)
    if plan is None or problems or any(not one.warning for one in broken):
        warnings = plan.warnings if plan else ()
        raise InputError(in_order([*problems, *broken, *warnings]))
    return plan._replace(warnings=(*plan.warnings, *broken))


def unfit_problems(source: ClusterSource) -> tuple[Problem, ...]:
    """Why the source cannot write its files for any job."""
    try:
        source.fit()
    except InputError as error:
        return error.problems
    return ()
