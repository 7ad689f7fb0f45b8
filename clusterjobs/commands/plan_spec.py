"""Makes the plan of a spec that is loaded: its code, the policies and its own configs are checked.

It must not know where specs and clusters come from, nor what is rendered.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping

from clusterjobs.cluster.source import ClusterSource
from clusterjobs.commands.files import read_text
from clusterjobs.commands.lab_paths import on_this_machine
from clusterjobs.commands.policies import Policies
from clusterjobs.commands.shell_check import code_problems
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.resolve import config_files, resolve
from clusterjobs.spec.load import Spec


def plan_spec(
    loaded: Spec, source: ClusterSource, policies: Policies, configs: Mapping[str, str]
) -> Plan:
    """The plan. Raises InputError with the problems of code, policies and the spec together.

    `configs`: see `read_configs`.
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


def read_configs(loaded: Spec, spec: pathlib.Path) -> dict[str, str]:
    """The program's own config files found on this machine, beside the spec or in workdir."""
    workdir = on_this_machine(spec.parent / (loaded.experiment.workdir or "."))
    folders = [spec.parent, workdir]
    found: dict[str, str] = {}
    for name in config_files(loaded):
        places = [folder / name for folder in folders if (folder / name).is_file()]
        if places:
            found[name] = read_text(places[0])
    return found
