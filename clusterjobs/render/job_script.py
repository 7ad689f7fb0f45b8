"""job.sh from a plan: every value quoted here, every decision made before the template."""

from __future__ import annotations

import functools
import pathlib
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import jinja2

from clusterjobs import __version__, resources
from clusterjobs.frameworks.base import ConfigFile
from clusterjobs.plan.inherited_env import PREFIXES
from clusterjobs.plan.parameters import PATTERNS, type_of
from clusterjobs.plan.plan import Plan
from clusterjobs.render import shell
from clusterjobs.render.container import container_context
from clusterjobs.render.input_lines import inputs_context
from clusterjobs.render.launch_lines import launch_context
from clusterjobs.render.lines import (
    WIDTH,
    command_text,
    once_per_node,
    path_text,
    program_text,
    wrapped,
)
from clusterjobs.render.preflight_lines import nccl_judge, nccl_watch, preflight_context
from clusterjobs.render.shell import ShellText
from clusterjobs.render.software_lines import software_context
from clusterjobs.render.stage_lines import staging_context
from clusterjobs.spec.experiment import Parameter, Step
from clusterjobs.spec.references import show


def render_job_script(plan: Plan, spec_file: str, settings: Sequence[str] = ()) -> str:
    """The text of job.sh; its header says how to render it again."""
    again = "".join(f" --set {shell.quote(item)}" for item in settings)
    return _template().render(_context(plan, f"{spec_file}{again}"))


@functools.cache
def _template() -> jinja2.Template:
    return _environment(resources.templates_dir()).get_template("job.sh.j2")


def _environment(folder: pathlib.Path) -> jinja2.Environment:
    """Bash's `${#array[@]}` looks like Jinja's usual comment, hence the delimiters."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
        finalize=shell.finalize,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        auto_reload=False,  # or each render would ask the disk about each template
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="{##",
        comment_end_string="##}",
    )


def _context(plan: Plan, rendered_from: str) -> dict[str, Any]:
    return {
        **_head(plan, rendered_from),
        **_restarts(plan),
        **software_context(plan),
        **preflight_context(plan),
        **_work(plan),
        **inputs_context(plan),
        **staging_context(plan),
        **container_context(plan),
        **launch_context(plan),
    }


def _head(plan: Plan, rendered_from: str) -> dict[str, Any]:
    experiment = plan.experiment
    return {
        "title": shell.comment(f"{experiment.name}: {describe(plan)}"),
        "version": ShellText(__version__),
        "rendered_from": shell.comment(rendered_from),
        "directives": [shell.directive(one.name, one.value) for one in plan.directives],
        "job_dir": path_text(f"{experiment.logs.path}/${{SLURM_JOB_ID}}"),
        "workdir_given": experiment.workdir is not None,
        "workdir": path_text(experiment.workdir or "."),
        "workdir_complaint": shell.quote(f"no workdir {show(experiment.workdir or '')} here"),
        "parameters": [_parameter(*item) for item in experiment.parameters.items()],
        "nodes": plan.shape.nodes,
        "nodes_in_words": ShellText(_counted(plan.shape.nodes, "node")),
        "own_slurm_variables": _patterns(plan.own_slurm_variables),
        "unset": wrapped("unset", plan.unset + tuple(f'"${{!{prefix}@}}"' for prefix in PREFIXES)),
    }


@functools.lru_cache(maxsize=64)  # nearly every job has the same
def _patterns(names: tuple[str, ...]) -> tuple[ShellText, ...]:
    """Clauses of a `case` that do nothing, in lines that a person can read."""
    lines = textwrap.wrap(" | ".join(names), WIDTH - 14, break_on_hyphens=False)
    return tuple(ShellText(f"{line.removesuffix(' |').removeprefix('| ')}) ;;") for line in lines)


def describe(plan: Plan) -> str:
    """The job in a line: 2 nodes x 8 GPUs (p4d.24xlarge), deepspeed started by srun."""
    shape, placement = plan.shape, plan.placement
    gpus, ranks = _counted(shape.gpus_per_node, "GPU"), _counted(shape.ranks_per_node, "rank")
    each = gpus if shape.gpus_per_node else ranks
    node = f" ({placement.instance_type})" if placement.instance_type else ""
    framework, launcher = plan.experiment.framework, plan.launcher.name
    starter = "its own launcher" if launcher == framework else launcher
    return f"{_counted(shape.nodes, 'node')} x {each}{node}, {framework} started by {starter}"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _restarts(plan: Plan) -> dict[str, Any]:
    checkpoints, restarts = plan.experiment.checkpoints, plan.restarts
    context = {
        "checkpoints_given": checkpoints is not None,
        "checkpoints": path_text(checkpoints.path if checkpoints else "."),
        "marker_given": plan.marker is not None,
        "marker": path_text(plan.marker or "."),
        "background_given": bool(plan.experiment.sidecars or nccl_watch(plan) or restarts),
        "restarts_given": restarts is not None,
        "ends_itself": restarts is not None and restarts.saving.told == "clock",
        "told_by_file": restarts is not None and restarts.saving.told == "file",
    }
    if restarts is None:
        return context
    budgets = restarts.budgets
    return {
        **context,
        "restarts_time_limit": budgets.time_limit,
        "restarts_failure": budgets.failure,
        "restarts_node_failure": budgets.node_failure,
        "grace_seconds": budgets.grace_seconds,
        "signal_seconds": restarts.signal_seconds,
        "clock_seconds": restarts.clock_seconds,
        "tell_signal_given": budgets.signal is not None,
        "tell_signal": ShellText(budgets.signal or ""),
    }


# ------------------------------------------------------------------ parameters


class _ParameterText(NamedTuple):
    name: ShellText
    assignment: ShellText
    pattern: ShellText
    choices: ShellText
    complaint: ShellText
    is_typed: bool
    has_choices: bool


_KINDS = {"text": "a text", "integer": "an integer", "number": "a number"}


def _parameter(name: str, parameter: Parameter) -> _ParameterText:
    kind = type_of(parameter)
    wanted = "one of " + ", ".join(parameter.choices) if parameter.choices else _KINDS[kind]
    return _ParameterText(
        ShellText(name),
        ShellText(f"{name}=${{{name}:-{shell.quote(parameter.default)}}}"),
        ShellText(PATTERNS.get(kind, "")),
        ShellText(" | ".join(shell.quote(choice) for choice in parameter.choices)),
        shell.quote(f"the parameter {name} is not {wanted}"),
        kind in PATTERNS,
        bool(parameter.choices),
    )


# ------------------------------------------------------------------ files and steps


class _FileText(NamedTuple):
    name: ShellText
    text: ShellText
    end: ShellText


def _work(plan: Plan) -> dict[str, Any]:
    experiment = plan.experiment
    folders = [experiment.checkpoints.path] if experiment.checkpoints else []
    return {
        "folders": ShellText(" ".join(map(path_text, folders))),
        "folders_complaint": shell.quote(f"cannot make {' '.join(map(show, folders))}"),
        "files": [_file(file) for file in plan.files],
        "programs": [_program(name) for name in plan.programs],
        "unpacked": wrapped("unpack", plan.programs),
        "before": [_step(step, plan) for step in experiment.before],
        "sidecars": [
            *nccl_watch(plan),
            *(_step(step, plan) for step in experiment.sidecars),
        ],
        "after": [*nccl_judge(plan), *(_step(step, plan) for step in experiment.after)],
    }


def _file(file: ConfigFile) -> _FileText:
    return _FileText(
        shell.quote(file.name),
        shell.verbatim(file.text.rstrip("\n")),
        shell.heredoc_word(file.text),
    )


def _program(name: str) -> _FileText:
    """A program at the script's end, between lines by which the script finds it again."""
    text = resources.node_program(name).rstrip("\n")
    return _FileText(shell.quote(name), shell.verbatim(text), ShellText(f"end of {name}"))


def _step(step: Step, plan: Plan) -> ShellText:
    if step.per == "job":
        return program_text(step.command)
    words = command_text(step.command)
    return ShellText(f"srun {once_per_node(plan.shape.nodes)} {words}")
