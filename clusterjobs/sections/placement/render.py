"""The section `placement` of the plan as text: numbers of nodes and ranks."""

from __future__ import annotations

from typing import Any

from clusterjobs.counted import counted
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.placement.gpu_requests import requests_gpus
from clusterjobs.sections.placement.node_share import port_stride
from clusterjobs.sections.rendering import Rendering


def render(rendering: Rendering) -> dict[str, Any]:
    """What the block `placement` and the launchers' templates print."""
    plan = rendering.plan
    shape, per_node = plan.placement.shape, plan.placement.per_node
    return {
        "nodes": shape.nodes,
        "all_nodes": plan.placement.all_nodes,
        "nodes_in_words": ShellText(counted(plan.placement.all_nodes, "node")),
        "gpus_per_node": shape.gpus_per_node,
        "has_gpus_unrequested": shape.gpus_per_node > 0 and not requests_gpus(plan.job.directives),
        "ranks_per_node": shape.ranks_per_node,
        "world_size": shape.world_size,
        "is_packed": per_node > 1,
        "last_slot": per_node - 1,
        "has_address_suffix": bool(plan.placement.address_suffix),
        "address_suffix": shell.quote(plan.placement.address_suffix),
        "port_stride": port_stride(per_node),
    }
