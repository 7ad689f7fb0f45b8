"""The section `preflight` of the plan as text: the checks of every node."""

from __future__ import annotations

from typing import Any

from clusterjobs.frameworks.base import JOB_DIR
from clusterjobs.script import shell
from clusterjobs.script.lines import command_text, option_lines, with_reason
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.plan import AllReduce, Plan
from clusterjobs.sections.rendering import Rendering
from clusterjobs.text import Value, joined, variable

_ALL_REDUCE_SECONDS = "240"


def render(rendering: Rendering) -> dict[str, Any] | None:
    """What the block `preflight` prints; None without a preflight."""
    plan = rendering.plan
    preflight = plan.preflight
    if preflight is None:
        return None
    reduced = preflight.all_reduce or AllReduce("0", 1, ())
    arguments = (reduced.gbps, str(reduced.percent), _ALL_REDUCE_SECONDS)
    return {
        "checks": [
            line
            for one in preflight.checks
            for line in with_reason(shell.quote(one.word), one.reason)
        ],
        "nodes": ShellText('"${all_nodes[@]}"' if plan.roles else '"${nodes[@]}"'),
        "has_all_reduce": preflight.all_reduce is not None,
        "all_reduce_options": option_lines(reduced.srun_options),
        "all_reduce_arguments": command_text(arguments),
        "excludes_bad_nodes": preflight.excludes_bad_nodes,
        "reads_nccl": preflight.reads_nccl,
        "nccl_logs": shell.quote(preflight.nccl_logs),
    }


def nccl_watch(plan: Plan) -> list[ShellText]:
    """The command that reads NCCL's log during the training, if the preflight asks for it."""
    return _nccl_step(plan, "watch", variable("slurm_job_id"))


def nccl_judge(plan: Plan) -> list[ShellText]:
    """The command that reads it after the training."""
    return _nccl_step(plan)


def _nccl_step(plan: Plan, *how: Value) -> list[ShellText]:
    preflight = plan.preflight
    if preflight is None or not preflight.reads_nccl:
        return []
    fabric = preflight.fabric
    words: list[Value] = [*how, preflight.nccl_logs, str(plan.placement.shape.world_size)]
    if fabric.provider != "efa":
        words += [fabric.title, fabric.network, *([fabric.provider] if fabric.provider else [])]
    return [command_text((variable("python"), "-BEsS", joined(JOB_DIR, "/nccl_log.py"), *words))]
