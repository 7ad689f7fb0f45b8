"""The sections of a job in their order, the checks around them, and the plan made of them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.sections.checkpoints import check_bucket_access, check_folders
from clusterjobs.sections.checkpoints import plan as plan_checkpoints
from clusterjobs.sections.checkpoints import render as render_checkpoints
from clusterjobs.sections.complete import (
    complete_spec,
    find_framework,
    find_launcher,
    find_launcher_options,
    with_runtime,
)
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.environment import check_secrets
from clusterjobs.sections.environment import plan as plan_environment
from clusterjobs.sections.environment import render as render_environment
from clusterjobs.sections.environment.checks import check_arguments, check_paths, check_unread_pins
from clusterjobs.sections.files import plan as plan_files
from clusterjobs.sections.files import render as render_files
from clusterjobs.sections.job import check_parameters
from clusterjobs.sections.job import plan as plan_job
from clusterjobs.sections.job import render as render_job
from clusterjobs.sections.job.checks import check_age, check_clock, check_signal, check_versions
from clusterjobs.sections.launch import plan as plan_launch
from clusterjobs.sections.launch import plan_program
from clusterjobs.sections.launch import render as render_launch
from clusterjobs.sections.model import check_precision, config_of
from clusterjobs.sections.placement import check_neuron, check_use_of_nodes
from clusterjobs.sections.placement import plan as plan_placement
from clusterjobs.sections.placement import render as render_placement
from clusterjobs.sections.placement.gpu_requests import check_gpu_requests, check_hint
from clusterjobs.sections.placement.node_share import check_packing
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.restarts import plan as plan_restarts
from clusterjobs.sections.restarts import render as render_restarts
from clusterjobs.sections.staging import plan as plan_staging
from clusterjobs.sections.staging import render as render_staging
from clusterjobs.sections.steps import plan as plan_steps
from clusterjobs.sections.steps import render as render_steps
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import LoadedSpec

Check = Callable[[Context], None]


class Section(NamedTuple):
    """A section of the plan: the field of Context, Plan and of the templates' variables.

    `plan` reads the sections before it, and `checks` follow it. `render`: None if the templates do
    not print it.
    """

    name: str
    plan: Callable[[Context], Any]
    render: Callable[[Rendering], Any] | None
    checks: tuple[Check, ...] = ()


def _rare(
    name: str, is_wanted: Callable[[Experiment], object], empty: object = None, *checks: Check
) -> Section:
    """A section that few specs have: only for these, its module is imported."""

    def module() -> Any:
        return importlib.import_module(f"clusterjobs.sections.{name}")

    def plan(context: Context) -> Any:
        return module().plan(context) if is_wanted(context.spec) else empty

    def render(rendering: Rendering) -> Any:
        return module().render(rendering) if getattr(rendering.plan, name) else empty

    return Section(name, plan, render, checks)


# The placement is planned first: the spec is completed with its numbers before the others.
SECTIONS = (
    Section("placement", plan_placement, render_placement, (check_packing, check_gpu_requests)),
    Section("program", plan_program, None),
    Section("restarts", plan_restarts, render_restarts),
    _rare("points", lambda spec: spec.sweep),
    Section("job", plan_job, render_job),
    Section("staging", plan_staging, render_staging),
    Section("checkpoints", plan_checkpoints, render_checkpoints),
    _rare("preflight", lambda spec: spec.preflight, None, check_unread_pins),
    Section("environment", plan_environment, render_environment, (check_paths,)),
    _rare("container", lambda spec: spec.software.container),
    Section("launch", plan_launch, render_launch),
    _rare("argument_check", lambda spec: spec.preflight),
    Section("steps", plan_steps, render_steps),
    _rare("roles", lambda spec: spec.roles, ()),
    Section("files", plan_files, render_files),
)

# The order of their variables in lists of the templates: that of the script.
PRINTED = (
    *(
        "job",
        "placement",
        "environment",
        "files",
        "checkpoints",
        "preflight",
        "argument_check",
        "staging",
    ),
    *("steps", "container", "launch", "restarts", "roles", "points"),
)

# Of the spec alone, before anything is planned.
CHECKS_OF_THE_SPEC: tuple[Check, ...] = (check_parameters, check_secrets, check_arguments)
# Of all sections together.
CHECKS: tuple[Check, ...] = (
    check_hint,
    check_age,
    check_versions,
    check_clock,
    check_signal,
    check_precision,
    check_use_of_nodes,
    check_folders,
    check_neuron,
    check_bucket_access,
)


# ------------------------------------------------------------------ plan
# Walks the sections.


_NO_TEXTS: Mapping[str, str] = {}


def resolve(loaded: LoadedSpec, facts: ClusterFacts, texts: Mapping[str, str] = _NO_TEXTS) -> Plan:
    """Make the plan. Raises InputError with all problems, warnings included.

    `texts`: the program's own config files (`config_files`) that were found.
    """
    context = Context(loaded, facts, texts_of_the_framework(loaded, texts))
    context.spec = with_runtime(context)
    for check in CHECKS_OF_THE_SPEC:
        check(context)
    framework = find_framework(context)
    context.launcher = find_launcher(context, framework)
    context.launcher_options = find_launcher_options(context, loaded)
    placement, *others = SECTIONS
    _plan(context, placement)
    context.framework = framework or context.diagnostics.stop()
    complete_spec(context, texts)
    for section in others:
        _plan(context, section)
    for check in CHECKS:
        check(context)
    context.diagnostics.raise_if_failed()
    return Plan(
        **{name: getattr(context, name) for name in Plan._fields[:-2]},
        derived=tuple(context.provenance),
        warnings=tuple(context.diagnostics.problems),
    )


def _plan(context: Context, section: Section) -> None:
    setattr(context, section.name, section.plan(context))
    for check in section.checks:
        check(context)


def config_files(loaded: LoadedSpec) -> tuple[str, ...]:
    """The program's own config files that the plan can use, relative to `workdir`."""
    return (*_of_the_framework(loaded), *config_of(loaded.spec.model))


def texts_of_the_framework(loaded: LoadedSpec, texts: Mapping[str, str]) -> Mapping[str, str]:
    """Without the file of `model: {config: ...}`, which no framework reads."""
    return {name: texts[name] for name in _of_the_framework(loaded) if name in texts}


def _of_the_framework(loaded: LoadedSpec) -> tuple[str, ...]:
    framework = FRAMEWORKS.get(loaded.spec.framework)
    return framework.config_files(loaded.options) if framework else ()
