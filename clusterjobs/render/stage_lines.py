"""The lines of job.sh that stage data in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterjobs.plan.exports import Export
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.staging import Stage
from clusterjobs.render import shell
from clusterjobs.render.shell import ShellText

_CHECKS: Mapping[str, str] = {"source": " --refresh", "contents": " --reread"}


def staging_context(plan: Plan) -> dict[str, Any]:
    """What the block `stage` prints."""
    copied = [one for one in plan.exports if not one.by_association]
    return {
        "stages": [_stage(stage) for stage in plan.stages],
        "stages_per_node": any(stage.per_node for stage in plan.stages),
        "exports": [_export(one) for one in copied],
    }


def _export(one: Export) -> ShellText:
    """A folder and where it goes, as words for export.py."""
    option = "--job " if one.is_of_job else ""
    return ShellText(f"{option}{_place(one.source)} {_place(one.target)}")


def _stage(stage: Stage) -> ShellText:
    """One line: what brings a data set, and where."""
    if stage.by_association:
        return ShellText(f'stage python3 -B "$job_dir/preload.py" {_place(stage.target)}')
    starter = '"${on_every_node[@]}" ' if stage.per_node else ""
    options = (" --unpack" if stage.unpack else "") + _CHECKS.get(stage.check, "")
    program = f'python3 -B "$job_dir/stage.py"{options}'
    return ShellText(f"stage {starter}{program} {_place(stage.source)} {_place(stage.target)}")


def _place(path: str) -> ShellText:
    """A path in which `${NAME}` is the node's to expand."""
    return shell.quote_expanding(path)
