"""The job as Slurm and people see it: its name, directives, folders and parameters."""

import re
from typing import Any

from clusterjobs.errors import counted
from clusterjobs.frameworks.base import folder_on_the_node
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.environment.checks import is_unset
from clusterjobs.sections.files import has_watchdog
from clusterjobs.sections.job.checks import check_dropped
from clusterjobs.sections.job.directives import sbatch_directives
from clusterjobs.sections.plan import POINT, Job, Parameter, Placement, SweepJob
from clusterjobs.sections.steps import ends_its_steps
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.job import Parameter as WrittenParameter
from clusterjobs.text import Text, Value, joined, show, variable, variable_names
from clusterjobs.version import __version__

# ------------------------------------------------------------------ parameters
# Parameters: values that can be changed when the job is submitted.


# Type -> its description, and its pattern as a regular expression of Python and of bash.
_KINDS = {
    "integer": ("an integer", "^[-+]?[0-9]+$"),
    "number": ("a number", r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"),
    "text": ("a text", ""),
}


def check_parameters(context: Context) -> None:
    """Names differ from the variables in `env`, and defaults are among the choices."""
    for name, one in context.spec.parameters.items():
        _check(context, name, one)


def _parameter(name: str, parameter: WrittenParameter) -> Parameter:
    what, pattern = _KINDS[_kind(parameter)]
    choices = parameter.choices
    wanted = f"one of {', '.join(map(show, choices))}" if choices else what
    return Parameter(name, parameter.default, pattern, choices, wanted)


def _kind(parameter: WrittenParameter) -> str:
    """The declared type, else the type of the default."""
    if parameter.type or parameter.choices:
        return parameter.type or "text"
    return next(kind for kind in _KINDS if _is_of_kind(parameter.default, kind))


def _is_of_kind(value: Value, kind: str) -> bool:
    pattern = _KINDS[kind][1]
    return not pattern or re.fullmatch(pattern, show(value)) is not None


def _check(context: Context, name: str, parameter: WrittenParameter) -> None:
    path, default, env = ("parameters", name), parameter.default, context.spec.env
    if isinstance(default, Text):
        context.problem((*path, "default"), "a default cannot be another parameter", "write it out")
    elif is_unset(name):
        context.problem(
            path,
            f"{name} never arrives: the job unsets it first",
            "choose another name, or set it under env:",
        )
    elif name in env and env[name] != variable(name):
        context.problem(path, f"{name} is set by env: too", "choose another name for one")
    elif parameter.choices and default not in parameter.choices:
        known = ", ".join(map(show, parameter.choices))
        context.problem(path, f"the default {default!r} is not a choice: {known}")
    elif not _is_of_kind(default, _kind(parameter)):
        context.problem(
            path,
            f"the default {default!r} is not of type {parameter.type}",
            "change one of the two",
        )


def plan(context: Context) -> Job:
    spec, facts = context.spec, context.facts
    check_dropped(context)
    _check_logs(context)
    return Job(
        spec.name,
        facts.name,
        spec.framework,
        _title(context.placement, spec, context.launcher.name),
        sbatch_directives(context),
        (*filter(None, [facts.slurm_commands]), "/usr/bin", "/bin"),
        _folder(spec, context.points),
        folder_on_the_node(spec.logs.copy_) if spec.logs.copy_ else None,
        folder_on_the_node(spec.workdir) if spec.workdir else None,
        tuple(_parameter(name, one) for name, one in spec.parameters.items()),
        spec.time_limit,
        spec.trust,
    )


def _folder(spec: Experiment, sweep: SweepJob | None) -> Value:
    """The job's own folder: of a sweep's job, below that of its point."""
    if sweep:
        return joined(sweep.folder, "/", POINT, "/", variable("SLURM_JOB_ID"))
    return folder_on_the_node(joined(spec.logs.path, "/${SLURM_JOB_ID}"))


def _check_logs(context: Context) -> None:
    logs = context.spec.logs
    if "job_dir" in variable_names(logs.copy_ or ""):
        context.problem(
            ("logs", "copy"),
            "the job's folder has its log already: job.log",
            "remove it, or write a file elsewhere: /fsx/logs/all.log",
        )
    if {"job_dir", "attempt"}.intersection(variable_names(logs.path)):
        context.problem(
            ("logs", "path"),
            "all attempts of a job share one folder, which is made below this path",
            "of the job's values, only {{ job.id }} and {{ job.array_index }} are known before it",
        )


def _title(placement: Placement, spec: Experiment, launcher: str) -> str:
    shape, node_type = placement.shape, placement.node_type.name
    gpus, ranks = counted(shape.gpus_per_node, "GPU"), counted(shape.ranks_per_node, "rank")
    each = gpus if shape.gpus_per_node else ranks
    if placement.per_node > 1:
        each = f"{placement.per_node} points x {each}"
    node = f" ({node_type})" if node_type else ""
    nodes, framework = f"{counted(shape.nodes, 'node')} x {each}{node}", spec.framework
    if spec.roles:
        nodes += f" + {counted(placement.role_nodes, 'node')} for {', '.join(spec.roles)}"
    starter = "its own launcher" if launcher == framework else launcher
    return f"{nodes}, {framework} started by {starter}"


# ------------------------------------------------------------------ text
# What the header and the block `job` print.


def render(rendering: Rendering) -> dict[str, Any]:
    plan, job = rendering.plan, rendering.plan.job
    runs_children = bool(
        plan.preflight
        or plan.staging.data
        or plan.environment.computed
        or plan.checkpoints.overwritten
    )
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
        "trust": ShellText("".join(f" {shell.quote(name)}" for name in job.trust)),
        "umask": ShellText("o-w" if job.trust else "go-w"),
        "has_workdir": job.workdir is not None,
        "workdir": shell.quote(job.workdir or "."),
        "parameters": [_parameter_text(one) for one in job.parameters],
        "has_options": bool(job.parameters) and plan.placement.per_node == 1,
        "is_packed": plan.placement.per_node > 1,
        "refuses_arguments": plan.placement.per_node == 1 and not plan.launch.takes_arguments,
        "has_watchdog": has_watchdog(plan),
        "reports_data": bool(plan.staging.data or plan.checkpoints.exports),
        "has_children": runs_children or ends_its_steps(plan),
        "runs_children": runs_children,
        "may_hold_itself": plan.preflight is not None and plan.preflight.excludes_bad_nodes,
    }


def _parameter_text(one: Parameter) -> dict[str, Any]:
    return {
        "name": ShellText(one.name),
        "assignment": ShellText(f"{one.name}=${{{one.name}:-{shell.quote(one.default)}}}"),
        "pattern": ShellText(one.pattern),
        "choices": ShellText(" | ".join(map(shell.quote, one.choices))),
        "complaint": shell.quote(f"the parameter {one.name} is not {one.wanted}"),
        "is_typed": bool(one.pattern),
        "has_choices": bool(one.choices),
    }
