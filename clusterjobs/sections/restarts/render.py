"""The section `restarts` of the plan as text: budgets, and how the ranks are asked to save."""

from __future__ import annotations

from typing import Any

from clusterjobs.script.shell import ShellText
from clusterjobs.sections.rendering import Rendering
from clusterjobs.spec.known_references import TRAINING_NODES


def render(rendering: Rendering) -> dict[str, Any] | None:
    """What the functions of restarts print; None without restarts."""
    plan = rendering.plan
    restarts = plan.restarts
    if restarts is None:
        return None
    return {
        "time_limit": restarts.time_limit,
        "failure": restarts.failure,
        "node_failure": restarts.node_failure,
        "stalled": restarts.stalled,
        "nodelist_option": ShellText(f' --nodelist="${TRAINING_NODES}"' if plan.roles else ""),
        "stall_option": ShellText(
            f" --stall-seconds={restarts.stall_seconds}" if restarts.stall_seconds else ""
        ),
        "grace_seconds": restarts.grace_seconds,
        "signal_seconds": restarts.signal_seconds,
        "clock_seconds": restarts.clock_seconds,
        "by_file": restarts.saving.stop_channel == "file",
        "by_clock": restarts.saving.stop_channel == "clock",
        "has_signal": restarts.signal is not None,
        "signal": ShellText(restarts.signal or ""),
    }
