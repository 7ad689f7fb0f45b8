"""job.sh from a plan: every value quoted here, every decision made before the template."""

from __future__ import annotations

import functools
import pathlib
import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import jinja2
import jinja2.compiler

from clusterjobs import __version__, resources
from clusterjobs.frameworks.contract import ConfigFile, Variable
from clusterjobs.plan.inherited import PREFIXES
from clusterjobs.plan.parameters import PATTERNS, type_of
from clusterjobs.plan.plan import Plan
from clusterjobs.render import shell
from clusterjobs.render.byte_code import ByteCode
from clusterjobs.render.container import container_context
from clusterjobs.render.input_lines import inputs_context
from clusterjobs.render.launch_lines import launch_context
from clusterjobs.render.lines import (
    WIDTH,
    command_text,
    once_per_node,
    path_text,
    with_reason,
    wrapped,
)
from clusterjobs.render.preflight_lines import nccl_judge, nccl_watch, preflight_context
from clusterjobs.render.shell import ShellText
from clusterjobs.render.stage_lines import staging_context
from clusterjobs.spec.experiment import Parameter, Secret, Step
from clusterjobs.spec.references import show


def render_job_script(plan: Plan, spec_file: str, settings: Sequence[str] = ()) -> str:
    """The text of job.sh; its header says how to render it again."""
    again = "".join(f" --set {shell.quote(item)}" for item in settings)
    return _template().render(_context(plan, f"{spec_file}{again}"))


@functools.cache
def _template() -> jinja2.Template:
    return _environment(resources.templates_dir()).get_template("job.sh.j2")


@functools.cache
def template_texts() -> Mapping[str, str]:
    """The text of every template, by its name: what the manifest records."""
    folder = resources.templates_dir()
    return {
        path.relative_to(folder).as_posix(): path.read_text(encoding="utf-8")
        for path in sorted(folder.rglob("*.j2"))
    }


def _environment(folder: pathlib.Path) -> jinja2.Environment:
    """Bash's `${#array[@]}` looks like Jinja's usual comment, hence the delimiters."""
    return jinja2.Environment(
        loader=jinja2.FileSystemLoader(folder),
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
        **_software(plan),
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
        "job_dir": path_text(f"{experiment.logs or 'logs'}/${{SLURM_JOB_ID}}"),
        "workdir_given": experiment.workdir is not None,
        "workdir": path_text(experiment.workdir or "."),
        "workdir_complaint": shell.quote(f"no workdir {show(experiment.workdir or '')} here"),
        "parameters": [_parameter(*item) for item in experiment.parameters.items()],
        "nodes": plan.shape.nodes,
        "nodes_in_words": ShellText(_counted(plan.shape.nodes, "node")),
        "own_slurm_variables": _patterns(plan.own_slurm_variables),
        "unset": _unset(plan.unset),
    }


@functools.lru_cache(maxsize=64)  # nearly every job has the same
def _patterns(names: tuple[str, ...]) -> tuple[ShellText, ...]:
    """Clauses of a `case` that do nothing, in lines that a person can read."""
    lines = textwrap.wrap(" | ".join(names), WIDTH - 14, break_on_hyphens=False)
    return tuple(ShellText(f"{line.removesuffix(' |').removeprefix('| ')}) ;;") for line in lines)


@functools.lru_cache(maxsize=64)
def _unset(names: tuple[str, ...]) -> ShellText:
    """The words behind `unset`, in lines that a person can read."""
    families = " ".join(f'"${{!{prefix}@}}"' for prefix in PREFIXES)
    lines = textwrap.wrap(f"{' '.join(names)} {families}", WIDTH - 10, break_long_words=False)
    return ShellText(" \\\n  ".join(lines))


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


# ------------------------------------------------------------------ environment and files


class _CodeText(NamedTuple):
    key: ShellText
    code: ShellText


def _software(plan: Plan) -> dict[str, Any]:
    software = plan.experiment.software
    return {
        "environment": [line for one in plan.environment for line in _export(one)],
        "secrets": [_secret(*item) for item in plan.experiment.secrets.items()],
        "modules": command_text(software.modules),
        "conda_given": software.conda is not None,
        "conda": shell.quote_expanding(software.conda or ""),
        "venv_given": software.venv is not None and software.container is None,
        "venv": path_text(software.venv or ""),
        "software_setup": _code("software.setup", software.setup),
        "setup": _code("setup", plan.experiment.setup),
    }


def _code(key: str, lines: tuple[str, ...]) -> list[_CodeText]:
    return [_CodeText(ShellText(key), shell.code(lines))] if lines else []


def _export(variable: Variable) -> list[ShellText]:
    quote = functools.partial(shell.quote_expanding, unset="-") if variable.expand else shell.quote
    name, value = variable.name, quote(variable.value)
    if variable.append:
        value = ShellText(f'"${{{name}:+${name}:}}{value}"')
    line = ShellText(f"export {name}={value}")
    return [line] if variable.expand else with_reason(line, variable.reason)


class _SecretText(NamedTuple):
    name: ShellText
    current: ShellText
    value: ShellText
    complaint: ShellText
    is_fetched: bool


def _secret(name: str, secret: Secret) -> _SecretText:
    """How the value is had when the job runs: it is in no file, and on no command line."""
    if secret.file is not None:
        path = path_text(secret.file)
        value, complaint = f"$(< {path})", f"the secret {name} is empty: its file has no text"
    else:
        value = f"$({_command(secret.command or ())})"
        complaint = f"the secret {name} is empty: its command printed nothing"
        if not secret.command:
            complaint = f"the secret {name} is not set: export {name} before sbatch"
    is_fetched = secret.file is not None or secret.command is not None
    current = ShellText(f"${{{name}:-}}")
    return _SecretText(
        ShellText(name), current, ShellText(value), shell.quote(complaint), is_fetched
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
        return _command(step.command)
    words = command_text(step.command)
    return ShellText(f"srun {once_per_node(plan.shape.nodes)} {words}")


def _command(words: tuple[str, ...]) -> ShellText:
    """Words as a command; `command` in front of a program that has the name of our functions."""
    is_ours = words and words[0] in _functions()
    return ShellText(f"command {command_text(words)}") if is_ours else command_text(words)


@functools.cache
def _functions() -> frozenset[str]:
    texts = "\n".join(template_texts().values())
    return frozenset(re.findall(r"(?m)^\s*([\w-]+) *\(\)", texts))
