"""job.sh from a plan: every value quoted here, every decision made before the template."""

from __future__ import annotations

import functools
import pathlib
import textwrap
from collections.abc import Sequence
from typing import Any, NamedTuple

import jinja2
import jinja2.compiler

from clusterjobs import __version__, resources
from clusterjobs.frameworks.base import ConfigFile
from clusterjobs.plan.job import counted
from clusterjobs.plan.parameters import Parameter
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.steps import Step
from clusterjobs.render import shell
from clusterjobs.render.byte_code import ByteCode
from clusterjobs.render.container import container_context
from clusterjobs.render.input_lines import inputs_context
from clusterjobs.render.launch_lines import launch_context
from clusterjobs.render.lines import (
    WIDTH,
    command_text,
    once_per_node,
    program_text,
    wrapped,
)
from clusterjobs.render.preflight_lines import nccl_judge, nccl_watch, preflight_context
from clusterjobs.render.shell import ShellText
from clusterjobs.render.software_lines import software_context
from clusterjobs.render.stage_lines import staging_context
from clusterjobs.spec.references import show, variable


def render_job_script(plan: Plan, spec_file: str, settings: Sequence[str] = ()) -> str:
    """The text of job.sh; its header says how to render it again."""
    again = "".join(f" --set {shell.quote(item)}" for item in settings)
    return _template(plan.launch.launcher.template_folder).render(
        _context(plan, f"{spec_file}{again}")
    )


@functools.cache
def _template(of_the_launcher: pathlib.Path | None) -> jinja2.Template:
    folders = [resources.templates_dir(), *([of_the_launcher] if of_the_launcher else [])]
    return _environment(*folders).get_template("job.sh.j2")


def _environment(*folders: pathlib.Path) -> jinja2.Environment:
    """Bash's `${#array[@]}` looks like Jinja's usual comment, hence the delimiters."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folders),
        bytecode_cache=ByteCode((jinja2.compiler.__file__, shell.__file__, __file__)),
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
    job, nodes = plan.job, plan.placement.shape.nodes
    written = (job.workdir or "").removeprefix(f"{variable('SLURM_SUBMIT_DIR')}/")
    return {
        "title": shell.comment(f"{job.name}: {job.title}"),
        "version": ShellText(__version__),
        "rendered_from": shell.comment(rendered_from),
        "directives": [shell.directive(one.name, one.value) for one in job.directives],
        "job_dir": shell.quote(job.folder),
        "workdir_given": job.workdir is not None,
        "workdir": shell.quote(job.workdir or "."),
        "workdir_complaint": shell.quote(f"no workdir {show(written)} here"),
        "parameters": [_parameter(one) for one in job.parameters],
        "nodes": nodes,
        "nodes_in_words": ShellText(counted(nodes, "node")),
        "own_slurm_variables": _patterns(plan.environment.kept_slurm),
        "unset": wrapped(
            "unset",
            plan.environment.unset
            + tuple(f'"${{!{prefix}@}}"' for prefix in plan.environment.unset_prefixes),
        ),
    }


@functools.lru_cache(maxsize=64)  # nearly every job has the same
def _patterns(names: tuple[str, ...]) -> tuple[ShellText, ...]:
    """Clauses of a `case` that do nothing, in lines that a person can read."""
    lines = textwrap.wrap(" | ".join(names), WIDTH - 14, break_on_hyphens=False)
    return tuple(ShellText(f"{line.removesuffix(' |').removeprefix('| ')}) ;;") for line in lines)


def _restarts(plan: Plan) -> dict[str, Any]:
    checkpoints, restarts = plan.checkpoints, plan.restarts
    context = {
        "checkpoints_given": checkpoints.path is not None,
        "checkpoints": shell.quote(checkpoints.path or "."),
        "marker_given": checkpoints.marker is not None,
        "marker": shell.quote(checkpoints.marker or "."),
        "background_given": bool(plan.steps.sidecars or nccl_watch(plan) or restarts),
        "restarts_given": restarts is not None,
        "ends_itself": restarts is not None and restarts.saving.stop_channel == "clock",
        "told_by_file": restarts is not None and restarts.saving.stop_channel == "file",
    }
    if restarts is None:
        return context
    budgets = restarts
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


def _parameter(parameter: Parameter) -> _ParameterText:
    name = parameter.name
    return _ParameterText(
        ShellText(name),
        ShellText(f"{name}=${{{name}:-{shell.quote(parameter.default)}}}"),
        ShellText(parameter.pattern),
        ShellText(" | ".join(shell.quote(choice) for choice in parameter.choices)),
        shell.quote(f"the parameter {name} is not {parameter.wanted}"),
        bool(parameter.pattern),
        bool(parameter.choices),
    )


# ------------------------------------------------------------------ files and steps


class _FileText(NamedTuple):
    name: ShellText
    text: ShellText
    end: ShellText


def _work(plan: Plan) -> dict[str, Any]:
    steps, folders = plan.steps, plan.files.folders
    programs = (
        *(plan.preflight.programs if plan.preflight else ()),
        *sorted({*plan.staging.programs, *plan.checkpoints.programs}),
        *plan.launch.programs,
        *(plan.container.programs if plan.container else ()),
    )
    return {
        "folders": ShellText(" ".join(map(shell.quote, folders))),
        "folders_complaint": shell.quote(f"cannot make {' '.join(map(show, folders))}"),
        "files": [_file(file) for file in plan.files.configs],
        "programs": [_program(name) for name in programs],
        "unpacked": wrapped("unpack", programs),
        "before": [_step(step, plan) for step in steps.before],
        "sidecars": [
            *nccl_watch(plan),
            *(_step(step, plan) for step in steps.sidecars),
        ],
        "after": [*nccl_judge(plan), *(_step(step, plan) for step in steps.after)],
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
    if not step.per_node:
        return program_text(step.words)
    words = command_text(step.words)
    return ShellText(f"srun {once_per_node(plan.placement.shape.nodes)} {words}")
