"""The section `roles` of the plan as text: their nodes, commands and options of srun."""

from __future__ import annotations

from typing import Any

from clusterjobs.counted import counted
from clusterjobs.script.lines import command_text, heading, option_lines
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.plan import Role
from clusterjobs.sections.rendering import Rendering
from clusterjobs.spec.known_references import addr_variable, nodes_variable, port_variable


def render(rendering: Rendering) -> list[dict[str, Any]]:
    """What the blocks `role_nodes` and `roles` print; empty without roles."""
    plan = rendering.plan
    reads_nccl = plan.preflight is not None and plan.preflight.reads_nccl
    return [_role(one, reads_nccl) for one in plan.roles]


def _role(role: Role, hides_nccl_log: bool) -> dict[str, Any]:
    return {
        "name": ShellText(role.name),
        "title": heading(f"{role.name}: on {counted(role.nodes, 'node')}, until the training ends"),
        "first": role.first,
        "nodes": role.nodes,
        "nodes_variable": ShellText(nodes_variable(role.name)),
        "addr_variable": ShellText(addr_variable(role.name)),
        "port_variable": ShellText(port_variable(role.name)),
        "has_port": role.port is not None,
        "port": role.port or 0,
        "ready_seconds": role.ready_seconds,
        "options": option_lines(role.options),
        "command": command_text(role.words),
        "hides_nccl_log": hides_nccl_log,
    }
