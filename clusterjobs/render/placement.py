"""The section `placement` of the plan as text: numbers of nodes and ranks."""

from __future__ import annotations

from typing import Any

from clusterjobs.counted import counted
from clusterjobs.plan.plan import Plan
from clusterjobs.render.shell import ShellText


def placement_context(plan: Plan) -> dict[str, Any]:
    """What the block `placement` and the launchers' templates print."""
    shape = plan.placement.shape
    return {
        "nodes": shape.nodes,
        "nodes_in_words": ShellText(counted(shape.nodes, "node")),
        "ranks_per_node": shape.ranks_per_node,
        "world_size": shape.world_size,
    }
