"""The lines of job.sh that ask the nodes before the training, and read NCCL's log beside it."""

from __future__ import annotations

from typing import Any

from clusterjobs.frameworks.base import JOB_DIR
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.preflight import NCCL_LOGS, AllReduce, PreflightPlan
from clusterjobs.render import shell
from clusterjobs.render.lines import command_text, option_lines, with_reason
from clusterjobs.render.shell import ShellText
from clusterjobs.spec.references import variable

_NONE = PreflightPlan((), False, False)


def preflight_context(plan: Plan) -> dict[str, Any]:
    """What the block `preflight` prints."""
    preflight = plan.preflight or _NONE
    reduced = preflight.all_reduce or AllReduce("0", 1, ())
    return {
        "preflight": plan.preflight is not None,
        "asked": [with_reason(shell.quote(one.word), one.reason) for one in preflight.asked],
        "asks": bool(preflight.asked or preflight.all_reduce),
        "all_reduce_given": preflight.all_reduce is not None,
        "all_reduce_options": [line for one in reduced.srun_options for line in option_lines(one)],
        "all_reduce_words": command_text((reduced.gbps, str(reduced.percent), "240")),
        "excludes_bad_nodes": preflight.excludes,
        "reads_nccl": preflight.reads_nccl,
        "nccl_logs": shell.quote(NCCL_LOGS),
    }


def nccl_watch(plan: Plan) -> list[ShellText]:
    """What reads NCCL's log beside the training, where the preflight wants it."""
    return _nccl_step(plan, "watch", variable("own_id"))


def nccl_judge(plan: Plan) -> list[ShellText]:
    """What reads it after the training."""
    return _nccl_step(plan)


def _nccl_step(plan: Plan, *how: str) -> list[ShellText]:
    if plan.preflight is None or not plan.preflight.reads_nccl:
        return []
    words = (*how, NCCL_LOGS, str(plan.shape.world_size))
    return [command_text((variable("python"), "-BEsS", f"{JOB_DIR}/nccl_log.py", *words))]
