"""The section `steps` of the plan as text: the commands around the training."""

from __future__ import annotations

from typing import Any

from clusterjobs.plan.plan import Plan
from clusterjobs.plan.steps import Step
from clusterjobs.render.lines import command_text, once_per_node, program_text
from clusterjobs.render.preflight import nccl_judge, nccl_watch
from clusterjobs.render.shell import ShellText
from clusterjobs.render.site.templates import SiteTemplates


def steps_context(plan: Plan, site: SiteTemplates) -> dict[str, Any]:
    """What the blocks `before` and `after` print."""
    steps, nodes = plan.steps, plan.placement.all_nodes
    after = [*nccl_judge(plan), *(_step(step, nodes) for step in steps.after)]
    sidecars = [*nccl_watch(plan), *(_step(step, nodes) for step in steps.sidecars)]
    return {
        "before": [_step(step, nodes) for step in steps.before],
        "sidecars": sidecars,
        "after": after,
        "has_after": bool(after or site.insertions("after_launch")),
        "has_background": bool(sidecars or plan.restarts),
    }


def _step(step: Step, nodes: int) -> ShellText:
    if not step.per_node:
        return program_text(step.words)
    return ShellText(f"srun {once_per_node(nodes)} {command_text(step.words)}")
