"""The sections of a job in their order, the checks around them, and the plan made of them."""

import importlib
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, Protocol

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.sections import (
    checkpoints,
    environment,
    files,
    job,
    launch,
    placement,
    restarts,
    staging,
    steps,
)
from clusterjobs.sections.complete import (
    complete_spec,
    find_framework,
    find_launcher,
    find_launcher_options,
    with_runtime,
)
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.environment.checks import check_arguments, check_paths, check_unread_pins
from clusterjobs.sections.job.checks import check_age, check_clock, check_signal, check_versions
from clusterjobs.sections.model import check_precision, config_of
from clusterjobs.sections.placement.gpu_requests import check_gpu_requests, check_hint
from clusterjobs.sections.placement.node_share import check_packing
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import LoadedSpec

Check = Callable[[Context], None]


class SectionModule(Protocol):
    """What the module of a section has. `plan` reads the sections before it."""

    def plan(self, context: Context) -> Any: ...

    def render(self, rendering: Rendering) -> Any: ...


class Section(NamedTuple):
    """A section of the plan: the field of Context, Plan and of the templates' variables.

    `render`: None if the templates do not print it. `checks` follow the section's plan.
    """

    name: str
    plan: Callable[[Context], Any]
    render: Callable[[Rendering], Any] | None
    checks: tuple[Check, ...] = ()


def _section(module: SectionModule, *checks: Check) -> Section:
    """The section of a module, by its name."""
    name = vars(module)["__name__"].rpartition(".")[2]
    return Section(name, module.plan, module.render, checks)


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
    _section(placement, check_packing, check_gpu_requests),
    Section("program", launch.plan_program, render=None),
    _section(restarts),
    _rare("points", lambda spec: spec.sweep),
    _section(job),
    _section(staging),
    _section(checkpoints),
    _rare("preflight", lambda spec: spec.preflight, None, check_unread_pins),
    _section(environment, check_paths),
    _rare("container", lambda spec: spec.software.container),
    _section(launch),
    _rare("argument_check", lambda spec: spec.preflight),
    _section(steps),
    _rare("roles", lambda spec: spec.roles, ()),
    _section(files),
)

# The order of their variables in lists of the templates: that of the script.
PRINTED = (
    "job",
    "placement",
    "environment",
    "files",
    "checkpoints",
    "preflight",
    "argument_check",
    "staging",
    "steps",
    "container",
    "launch",
    "restarts",
    "roles",
    "points",
)

# Of the spec alone, before anything is planned.
CHECKS_OF_THE_SPEC: tuple[Check, ...] = (
    job.check_parameters,
    environment.check_secrets,
    check_arguments,
)
# Of all sections together.
CHECKS: tuple[Check, ...] = (
    check_hint,
    check_age,
    check_versions,
    check_clock,
    check_signal,
    check_precision,
    placement.check_use_of_nodes,
    checkpoints.check_folders,
    placement.check_neuron,
    checkpoints.check_bucket_access,
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
    first, *others = SECTIONS
    _plan(context, first)
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
    """The texts without the file of `model: {config: ...}`, which no framework reads."""
    return {name: texts[name] for name in _of_the_framework(loaded) if name in texts}


def _of_the_framework(loaded: LoadedSpec) -> tuple[str, ...]:
    framework = FRAMEWORKS.get(loaded.spec.framework)
    return framework.config_files(loaded.options) if framework else ()
