"""The section `checkpoints` of the plan as text: their folder and the exports."""

from __future__ import annotations

from typing import Any

from clusterjobs.script import shell
from clusterjobs.script.lines import NOTHING
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.plan import Checkpoints, Export
from clusterjobs.sections.rendering import Rendering
from clusterjobs.text import Value, joined, not_required


def render(rendering: Rendering) -> dict[str, Any]:
    """What the block `checkpoints` prints, and the options of attempt.py."""
    plan = rendering.plan
    checkpoints = plan.checkpoints
    options = [
        *([joined("--checkpoints=", checkpoints.path)] if checkpoints.path else []),
        *([joined("--marker=", checkpoints.marker)] if checkpoints.marker else []),
    ]
    return {
        "exports": [_export(one) for one in checkpoints.exports],
        "is_recorded_here": checkpoints.path is not None and plan.restarts is None,
        "newest": _newest(checkpoints),
        "has_resume": bool(checkpoints.resume_option),
        "resume_option": shell.quote(checkpoints.resume_option),
        "folder": shell.quote(checkpoints.path or ""),
        "newest_option": ShellText(f' --newest="$({_newest(checkpoints)})"')
        if checkpoints.resume_option
        else NOTHING,
        # The job may fail before the parameters and the environment are set.
        "attempt_options": ShellText(" ".join(map(_if_set, options))),
    }


def _newest(checkpoints: Checkpoints) -> ShellText:
    """A command that prints the name of the newest checkpoint, as attempt.py finds it."""
    if checkpoints.resume_option:
        return ShellText(f"newest_checkpoint {_if_set(checkpoints.path or '.')}")
    if checkpoints.marker:
        marker = _if_set(checkpoints.marker)
        return ShellText(f"timeout 10 head -c 1024 -- {marker} 2>/dev/null | head -n 1")
    folder = _if_set(checkpoints.path or ".")
    options = "-mindepth 1 -maxdepth 1 ! -name '.*' -printf '%T+ %f\\n'"
    return ShellText(f"find {folder} {options} 2>/dev/null | sort | tail -n 1")


def _if_set(text: Value) -> ShellText:
    return shell.quote(not_required(text), "-")


def _export(one: Export) -> ShellText:
    """Arguments of export.py: a folder and its target."""
    option = "--overwrite " if one.overwrite else ""
    return ShellText(f"{option}{shell.quote(one.source)} {shell.quote(one.target)}")
