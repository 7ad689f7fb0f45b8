"""The lines of job.sh that stage data in and out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterjobs.plan.checkpoints import Export
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.staging import DataSet
from clusterjobs.render import shell
from clusterjobs.render.shell import ShellText

_CHECKS: Mapping[str, str] = {"source": " --refresh", "contents": " --reread"}


def staging_context(plan: Plan) -> dict[str, Any]:
    """What the block `stage` prints."""
    return {
        "stages": [_stage(stage) for stage in plan.staging.data],
        "stages_per_node": any(stage.per_node for stage in plan.staging.data),
        "exports": [_export(one) for one in plan.checkpoints.exports],
    }


def _export(one: Export) -> ShellText:
    """A folder and where it goes, as words for export.py."""
    option = "--job " if one.of_job else ""
    return ShellText(f"{option}{_place(one.source)} {_place(one.target)}")


def _stage(stage: DataSet) -> ShellText:
    """One line: what brings a data set, and where."""
    if stage.linked:
        return ShellText(f'stage python3 -B "$job_dir/preload.py" {_place(stage.target)}')
    starter = '"${on_every_node[@]}" ' if stage.per_node else ""
    options = (" --unpack" if stage.unpack else "") + _CHECKS.get(stage.verify, "")
    program = f'python3 -B "$job_dir/stage.py"{options}'
    return ShellText(f"stage {starter}{program} {_place(stage.source)} {_place(stage.target)}")


def _place(path: str) -> ShellText:
    return shell.quote(path)
