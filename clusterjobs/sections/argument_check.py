"""What the job's own Python gives to the framework's parser before anything is staged.

The request is a JSON file that the script carries: the command of a rank, the sizes of the job, and
for each flag the line of the spec that made it. `node/arguments/argument_check.py` reads it.
"""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from clusterjobs.frameworks.arguments import argument_names
from clusterjobs.frameworks.base import JOB_DIR
from clusterjobs.launchers import Launcher
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.plan import ArgumentCheck, Container, Plan, SpecLine, Step
from clusterjobs.sections.steps import step_text
from clusterjobs.spec.keys.preflight import Preflight
from clusterjobs.spec.model import SpecModel
from clusterjobs.text import Reference, ShellVariable, Value, parts_of, show, variable
from clusterjobs.yaml.document import Path, dotted

REQUEST = "argument_check.json"  # in the job's folder


def plan(context: Context) -> ArgumentCheck | None:
    written = context.spec.preflight or Preflight()
    runs_help = written.arguments == "help"
    if not written.arguments or not context.program.command:
        return None
    framework, launch, launcher = context.framework, context.launch, context.launcher
    has_options = launch.own_options or any(
        name.startswith(launcher.variables_of_options) for name in context.spec.env
    )
    has_options = has_options or launcher.name == "accelerate"
    is_own_script = not framework.argument_check or framework.checks_config_alone
    found = (
        "check_script" if runs_help and context.program.is_python and is_own_script else "",
        framework.argument_check,
        launcher.argument_check if has_options else "",
    )
    checks = [*dict.fromkeys(one for one in found if one)]
    if not checks or context.placement.node_type.has_amd_gpus:
        return None
    where = "the container" if context.container else "the job's Python"
    reason = f"its own parser, in {where}, before anything is staged"
    context.record("preflight.arguments", f"asked of {context.framework.name}", reason)
    return ArgumentCheck(
        tuple(checks),
        written.seconds,
        runs_help,
        context.parallelism.pipeline,
        (*framework.reads_variables, *launcher.variables_of_options),
        dict(lines_of(context)),
    )


# ------------------------------------------------------------------ lines of the spec


def lines_of(context: Context) -> Iterator[tuple[str, SpecLine]]:
    """The line of the spec for each flag of the command, and for each key of a config file."""
    own = context.launcher_options if context.launcher.argument_check else None
    for key, path in (*_keys_of_options(context.options), *_keys_of_options(own, context.launcher)):
        yield key, _line(context, path)
    for name in context.spec.env:
        yield f"env.{name}", _line(context, ("env", name))
    for name, description in context.program.origins.items():
        if described := context.diagnostics.described(description):
            flag = name if name.startswith("-") else f"--{name.replace('_', '-')}"
            yield flag, _line(context, described)
    for position, name in argument_names(context.spec):
        flag = name.partition("=")[0]
        flag = flag if flag.startswith("-") else f"--{flag}"
        yield flag, _line(context, ("args", position))


def _line(context: Context, path: Path) -> SpecLine:
    where = context.diagnostics.where_key(path)
    name = PurePosixPath(where.file).name  # the same script, wherever the spec lies
    return SpecLine(dotted(path), name, where.line, where.column, where.width, where.source)


def _keys_of_options(
    options: SpecModel | None, launcher: Launcher | None = None
) -> Iterator[tuple[str, Path]]:
    """The paths of what the framework's own keys hold, such as `ds_config.zero_optimization`, or
    the launcher's."""
    data = options.model_dump(exclude_unset=True, by_alias=True) if options else {}
    yield from _paths(data, (launcher.name,) if launcher and data else ())


def _paths(data: Any, path: Path) -> Iterator[tuple[str, Path]]:
    if path:
        yield ".".join(map(str, path)), path
    if isinstance(data, Mapping):
        for key, value in data.items():
            yield from _paths(value, (*path, key))


# ------------------------------------------------------------------ the request


def request_of(plan: Plan, check: ArgumentCheck, is_in_job: bool = True) -> str:
    """The JSON file, one line for each of its keys. A job has its variables already."""
    launch, shape = plan.launch, plan.placement.shape
    words = launch.words[1:] if launch.words[:1] == ("python3",) else launch.words
    settings = {
        one.name: _written(one.value) for one in plan.environment.variables if not is_in_job
    }
    given = {show(word).partition("=")[0] for word in words}
    lines = {
        name: line
        for name, line in check.lines.items()
        if name in given or not name.startswith("-")
    }
    prefixes = tuple(f"env.{one}" for one in check.variables)
    request = {
        "title": plan.job.framework,
        "checks": check.checks,
        "seconds": check.seconds,
        "nodes": shape.nodes,
        "ranks_per_node": shape.ranks_per_node,
        "pipeline": check.pipeline,
        "capability": capability_of(plan.placement.node_type.gpu_model or ""),
        "runs_help": check.runs_help,
        "launcher": launch.launcher.name,
        "launcher_words": [_written(word) for word in launch.own_options],
        "read_variables": [name for name in lines if name.startswith(prefixes)],
        "settings": settings,
        "files": [file.name for file in plan.files.configs],
        "folder": _written(JOB_DIR),
        "words": [_written(word) for word in words],
        "origins": {name: line[:-1] for name, line in lines.items()},
        "lines": {f"{one.file}:{one.line}": one.source for one in lines.values()},
    }
    text = (f" {json.dumps(key)}: {json.dumps(value)}" for key, value in request.items())
    return "{\n" + ",\n".join(text) + "\n}\n"


def _written(value: Value) -> str | list[str | dict[str, Any]]:
    """A text, or its parts with the names of its variables."""
    if isinstance(value, str):
        return value
    return [part if isinstance(part, str) else _reference(part) for part in parts_of(value)]


def _reference(part: Reference) -> dict[str, Any]:
    default = part.default if isinstance(part, ShellVariable) else None
    return {"variable": part.name, **({} if default is None else {"default": _written(default)})}


def capability_of(gpu: str) -> tuple[int, int]:
    """CUDA's compute capability: what a parser asks of the GPU, such as whether it has FP8."""
    known = {"V100": (7, 0), "T4": (7, 5), "A10": (8, 6), "A100": (8, 0), "L4": (8, 9)}
    known |= {"L40": (8, 9), "H100": (9, 0), "H200": (9, 0), "GH200": (9, 0)}
    known |= {"B200": (10, 0), "GB200": (10, 0), "B300": (10, 3), "GB300": (10, 3)}
    return next((known[name] for name in (gpu, gpu[:-1]) if name in known), (9, 0))


def variables_of(plan: Plan) -> list[str]:
    """The shell variables in the request's values."""
    values = [*plan.launch.words, *plan.launch.own_options, JOB_DIR]
    parts = (part for value in values for part in parts_of(value))
    return sorted({part.name for part in parts if not isinstance(part, str)})


def render(rendering: Rendering) -> dict[str, Any] | None:
    plan = rendering.plan
    if plan.argument_check is None:
        return None
    return {
        "settings": [
            ShellText(f"{name}={shell.quote(variable(name), '-')}") for name in variables_of(plan)
        ],
        **dict.fromkeys(("container", "launch", "locals", "srun")),
        **(_in_container(rendering, plan.container) if plan.container else {}),
    }


def _in_container(rendering: Rendering, whole: Container) -> dict[str, Any]:
    """The container on the first node, without the mounts of data, which is not staged yet."""
    from clusterjobs.sections import container

    mounts = tuple(one for one in whole.mounts if one.path[0] != "data")
    plan = rendering.plan._replace(container=whole._replace(mounts=mounts, ssh_inside=False))
    step = step_text(Step((), inside=True), plan)
    title = ShellText("# as that of the ranks below, without the data, which is not staged yet")
    names = "container_mounts container_env" if whole.runtime == "pyxis" else "container"
    return {
        "locals": ShellText(names),
        "container": {**container.render(rendering._replace(plan=plan)), "title": title},
        "srun": step["srun"],
        "launch": {**step["launch"], "has_lifeline": False},
    }


def carried_file(plan: Plan) -> Sequence[dict[str, ShellText]]:
    """The request, which the script carries as it carries programs."""
    if plan.argument_check is None:
        return ()
    text = request_of(plan, plan.argument_check).rstrip("\n")
    return ({"name": ShellText(REQUEST), "text": shell.verbatim(text)},)
