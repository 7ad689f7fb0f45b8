"""Which framework and which launcher a spec means."""

from __future__ import annotations

from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.errors import did_you_mean, nearest
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.frameworks.base import Framework
from clusterjobs.launchers import LAUNCHERS, Launcher
from clusterjobs.launchers.base import LauncherOptions
from clusterjobs.spec.load import Spec


def find_framework(name: str, diagnostics: Diagnostics) -> Framework | None:
    """The framework; None if the name is unknown, with a problem that suggests a known one."""
    framework = FRAMEWORKS.get(name)
    if framework is None:
        hint = did_you_mean(name, list(FRAMEWORKS))
        diagnostics.problem(("framework",), f"no framework {name!r}", hint)
    return framework


def find_launcher(
    name: str | None,
    framework: Framework | None,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Launcher:
    """The launcher. The framework's default replaces a wrong one, so that planning can continue."""
    choices = framework.launchers if framework else tuple(LAUNCHERS)
    default = LAUNCHERS[choices[0]]
    if name is None:
        if framework:
            provenance.record("launcher", default.name, f"the default of {framework.name}")
        return default
    found = LAUNCHERS.get(name)
    if found and (name in choices or (framework and framework.name in found.frameworks)):
        return found
    what = f"no launcher {name!r}"
    if framework:
        what = f"{framework.name} is not started by {name}" if found else what
        others = [one.name for one in LAUNCHERS.values() if framework.name in one.frameworks]
        choices = (*choices, *others)
    match = None if found else nearest(name, choices)
    hint = f"did you mean {match}? " if match else ""
    diagnostics.problem(("launcher",), what, f"{hint}known: {', '.join(choices)}")
    return default


def find_launcher_options(
    spec: Spec, launcher: Launcher, diagnostics: Diagnostics
) -> LauncherOptions | None:
    """The launcher's own options, with their defaults if the spec has none.

    Those of another launcher are a problem in a spec.
    In a defaults.yaml they are not: there they are for the specs that use that launcher.
    """
    for name in spec.launcher_options:
        if name != launcher.name and spec.source.origin((name,)).layer.role != "default":
            what = f"these are options of the launcher {name}, and this job uses {launcher.name}"
            hint = f"remove it, or write launcher: {name}"
            diagnostics.problem((name,), what, hint, at_key=True)
    found = spec.launcher_options.get(launcher.name) or (launcher.options and launcher.options())
    return found if isinstance(found, LauncherOptions) else None
