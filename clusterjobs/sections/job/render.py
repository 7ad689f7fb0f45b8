"""The section `job` of the plan as text: header, directives, folders and parameters."""

from __future__ import annotations

from typing import Any

from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.files import has_watchdog
from clusterjobs.sections.plan import Parameter
from clusterjobs.sections.rendering import Rendering
from clusterjobs.sections.steps import ends_its_steps
from clusterjobs.version import __version__


def render(rendering: Rendering) -> dict[str, Any]:
    """What the header and the block `job` print."""
    plan, job = rendering.plan, rendering.plan.job
    runs_children = bool(plan.preflight or plan.staging.data)
    settings = (f" --set {shell.quote(item)}" for item in rendering.settings)
    rendered_from = rendering.spec_file + "".join(settings)
    return {
        "title": shell.comment(f"{job.name}: {job.title}"),
        "version": ShellText(__version__),
        "rendered_from": shell.comment(rendered_from),
        "directives": [shell.directive(one.name, one.value) for one in job.directives],
        "path": shell.quote(":".join(job.path)),
        "folder": shell.quote(job.folder),
        "has_log_copy": job.log_copy is not None,
        "log_copy": shell.quote(job.log_copy or ""),
        "has_workdir": job.workdir is not None,
        "workdir": shell.quote(job.workdir or "."),
        "parameters": [_parameter(one) for one in job.parameters],
        "removes_old_records": plan.restarts is None,
        "is_packed": plan.placement.per_node > 1,
        "refuses_arguments": plan.placement.per_node == 1 and not plan.launch.takes_arguments,
        "has_watchdog": has_watchdog(plan),
        "reports_data": bool(plan.staging.data or plan.checkpoints.exports),
        "has_children": runs_children or ends_its_steps(plan),
        "runs_children": runs_children,
        "may_hold_itself": plan.preflight is not None and plan.preflight.excludes_bad_nodes,
    }


def _parameter(one: Parameter) -> dict[str, Any]:
    return {
        "name": ShellText(one.name),
        "assignment": ShellText(f"{one.name}=${{{one.name}:-{shell.quote(one.default)}}}"),
        "pattern": ShellText(one.pattern),
        "choices": ShellText(" | ".join(map(shell.quote, one.choices))),
        "complaint": shell.quote(f"the parameter {one.name} is not {one.wanted}"),
        "is_typed": bool(one.pattern),
        "has_choices": bool(one.choices),
    }
