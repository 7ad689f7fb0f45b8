"""Reserved variables that a spec sets all the same, with `force: true` and a reason."""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.launchers.base import Launcher
from clusterjobs.plan.placement import Placement
from clusterjobs.provenance import Provenance
from clusterjobs.spec.env_values import Forced
from clusterjobs.spec.references import has_variable, show
from clusterjobs.spec.reserved_names import FORCEABLE, FORCED_FOR_RANKS, RESERVED_NAMES


def check_forced(
    env: Mapping[str, str],
    launcher: Launcher,
    placement: Placement,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> None:
    """Refuse reserved variables that are not forced, and those that cannot be forced here."""
    for name, value in env.items():
        path = ("env", name)
        if not isinstance(value, Forced):
            if name in FORCEABLE:
                hint = f"{RESERVED_NAMES[name]}; to set it all the same, write {name}: "
                hint += f"{{value: {show(value) or '...'}, force: true, reason: why}}"
                diagnostics.problem(path, f"{name} is reserved", hint, at_key=True)
        elif name not in FORCEABLE:
            what = f"{name} is not reserved, so there is nothing to force"
            diagnostics.problem(path, what, f"write {name}: {show(value)}", at_key=True)
        elif placement.per_node > 1 and name != "LD_PRELOAD":
            what = f"{placement.per_node} points share a node, and each needs another {name}"
            diagnostics.problem(path, what, "remove it, or sweep.per_node", at_key=True)
        elif name in FORCED_FOR_RANKS and not launcher.runs_commands:
            what = f"{launcher.name} may start the ranks without this {name}"
            diagnostics.problem(path, what, "remove it, or choose another launcher", at_key=True)
        elif name == "MASTER_PORT" and not (has_variable(value) or _is_port(value)):
            diagnostics.problem(path, f"{show(value)} is not a port", "write 1024 to 65535")
        else:
            provenance.record(f"env.{name}", show(value), f"forced: {value.reason}")


def _is_port(value: str) -> bool:
    return value.isascii() and value.isdecimal() and len(value) <= 5 and 0 < int(value) <= 65535


def forced_for_ranks(env: Mapping[str, str]) -> Mapping[str, Forced]:
    """The variables that the command of each rank sets."""
    return {
        name: value
        for name, value in env.items()
        if name in FORCED_FOR_RANKS and isinstance(value, Forced)
    }
