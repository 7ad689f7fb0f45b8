"""Makes the plan from a spec and a cluster. Pure: no clock, network, files or environment."""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.sections.complete import (
    complete_spec,
    find_framework,
    find_launcher,
    find_launcher_options,
    with_runtime,
)
from clusterjobs.sections.context import Context
from clusterjobs.sections.model import config_of
from clusterjobs.sections.order import CHECKS, CHECKS_OF_THE_SPEC, SECTIONS, Section
from clusterjobs.sections.plan import Plan
from clusterjobs.spec.load import LoadedSpec

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
