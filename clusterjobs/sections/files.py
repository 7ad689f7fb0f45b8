"""The files and folders that the script creates before it starts anything."""

import pathlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import PurePosixPath
from typing import Any

from clusterjobs import resources
from clusterjobs.frameworks.base import ConfigFile
from clusterjobs.script import shell
from clusterjobs.script.lines import wrapped
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.plan import CONTAINER_SETUP, Files, Input, Plan
from clusterjobs.sections.storage import is_below
from clusterjobs.spec import field_types
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.staging import Data
from clusterjobs.text import Text, Value, changed, expanding, is_rooted, joined, show
from clusterjobs.yaml.document import Path, dotted


def plan(context: Context) -> Files:
    program, checkpoints = context.program, context.checkpoints.path
    container = context.spec.software.container
    own = [ConfigFile(CONTAINER_SETUP, "\n".join(container.setup))] if container else []
    files = (*program.files, *(one for one in own if one.text))
    return Files(files, (checkpoints,) if checkpoints else (), program.links)


# ------------------------------------------------------------------ inputs
# Files that must exist before a rank starts: the script or program, and the sources of data.
# A retry would miss the same files. Buckets are checked by the programs that read them.


def plan_inputs(context: Context) -> tuple[Input, ...]:
    """The inputs that the first node can check."""
    return (*_programs(context), *_sources(context))


def _programs(context: Context) -> Iterator[Input]:
    spec, program = context.spec, context.program
    if spec.script and program.is_python:
        # deepy.py counts as a script: it starts the other one.
        scripts = dict.fromkeys(
            one
            for one in (program.command[0], expanding(spec.script))
            if not field_types.module_of(one)
        )
        where = context.diagnostics.where(("script",))
        for path, late in _on_the_node(scripts, spec):
            yield Input("script", "script", path, None, late, where)
    elif spec.command and program.command and not program.is_python:
        where = context.diagnostics.where(("command",))
        first, *rest = program.command
        if "/" in show(first):  # a bare name is found on the PATH of the node
            for path, late in _on_the_node([first], spec):
                yield Input("program", "command", path, None, late, where, is_run=True)
        is_interpreter = PurePosixPath(show(first)).name in shell.INTERPRETERS
        if is_interpreter and rest and not rest[0].startswith("-"):
            for path, late in _on_the_node(rest[:1], spec):
                yield Input("script", "command", path, None, late, where)


def _on_the_node(paths: Iterable[Value], spec: Experiment) -> Iterator[tuple[Value, bool]]:
    """The paths that the first node can check, and whether each is made late."""
    for path in paths:
        is_whole = is_rooted(path)
        whole = path if is_whole else joined(spec.workdir or ".", "/", path)
        # In a container, only `workdir` is sure to have the same path as outside.
        container = spec.software.container
        if not (container and (is_whole or container.workdir)):
            yield path, bool(spec.before) or _is_staged(whole, spec.data)


def _sources(context: Context) -> Iterator[Input]:
    data = context.spec.data
    for index, one in enumerate(data):
        if one.source.startswith("s3://") or _is_staged(one.source, data):
            continue
        key: Path = ("data", index, "source")
        source, target = expanding(one.source), expanding(one.target)
        yield Input(
            "data source", dotted(key), source, target, False, context.diagnostics.where(key)
        )


def _is_staged(path: Value, data: Sequence[Data]) -> bool:
    return any(is_below(path, one.target) for one in data)


# ------------------------------------------------------------------ data paths
# Data that every node reads, in the framework's own arguments: is it where every node sees it?


def check_data_paths(context: Context) -> None:
    """Warn of paths on each node's own disk, when there is more than one node.

    Data that the job copies to every node is there; so is what a step on every node may have made.
    """
    spec, storage, nodes = context.spec, context.storage, context.placement.shape.nodes
    paths = context.framework.data_paths(spec, context.options, context.texts)
    made_on_nodes = any(step.per == "node" for step in spec.before)
    for one in paths if nodes > 1 else ():
        path = show(one.path)
        if not storage.is_own(one.path) or storage.is_shared(one.path):
            continue
        on_every_node = made_on_nodes or any(
            data.scope == "node" and is_below(one.path, data.target) for data in spec.data
        )
        if on_every_node and not one.indexed:
            continue
        why = (
            f"only the first node writes the index beside {path}, and {nodes - 1} would not find it"
            if on_every_node
            else f"{path} is each node's own disk, and {nodes} nodes use it"
        )
        hint = f"a folder that all nodes share: {storage.mounts}"
        context.problem(one.key, why, hint, warning=True)


# ------------------------------------------------------------------ text
# Config files, folders, programs for the nodes.


def render(rendering: Rendering) -> dict[str, Any]:
    plan, files, record = rendering.plan, rendering.plan.files, rendering.plan_json
    run_in_place = ["make_safe_folder.sh", *["first_exit_code.sh"] * plan.launch.kills_others]
    unpacked = [*map(_program, node_programs(plan)), *_requests(plan)]
    return {
        "is_needed": bool(files.configs or files.folders),
        "configs": [_config(file) for file in files.configs if not isinstance(file.text, Text)],
        "point_configs": [_config(file) for file in files.configs if isinstance(file.text, Text)],
        "folders": [shell.quote(one) for one in files.folders],
        "subfolders": [shell.quote(one) for one in _subfolders(files)],
        "links": [_link(pathlib.PurePosixPath(one)) for one in files.links],
        # That of a sweep is printed by its own block.
        "plan_json": shell.verbatim(record if isinstance(record, str) else ""),
        "needs_python": bool(plan.restarts or plan.preflight or _looks_at_checkpoints(plan)),
        "unpacked": wrapped(tuple(one["name"] for one in unpacked)),
        "programs": [*map(_program, run_in_place), *unpacked],
    }


def has_watchdog(plan: Plan) -> bool:
    """Whether a watchdog stops hanging ranks.

    It acts on a whole job, so packs have none; it would stop ranks that the cluster restarts.
    """
    restarts = plan.restarts
    return restarts is not None and plan.placement.per_node == 1 and not restarts.auto_resume


def _looks_at_checkpoints(plan: Plan) -> bool:
    """Whether whole_checkpoint.py runs before the ranks."""
    return bool(plan.checkpoints.overwritten) or plan.has_latest


def node_programs(plan: Plan) -> tuple[str, ...]:
    """The programs that the job unpacks into its folder, and what they import."""
    return resources.with_imports(
        (
            *(("attempt.py",) if plan.restarts else ()),
            *(("watchdog.py",) if has_watchdog(plan) else ()),
            *(plan.preflight.programs if plan.preflight else ()),
            *(plan.argument_check.programs if plan.argument_check else ()),
            *plan.staging.programs,
            *(("whole_checkpoint.py",) if _looks_at_checkpoints(plan) else ()),
            *plan.checkpoints.programs,
            *plan.launch.programs,
            *plan.steps.programs,
        )
    )


def _config(file: ConfigFile) -> dict[str, ShellText]:
    """A file with variables, of a sweep, is written by a here-document that expands them."""
    lines = changed(file.text, lambda text: text.rstrip("\n"))
    text = shell.expanding_document(lines) if isinstance(lines, Text) else shell.verbatim(lines)
    name = f"{file.folder}/{file.name}" if file.folder else file.name
    return {
        "name": shell.quote(name),
        "text": text,
        "end": shell.heredoc_word(text),
    }


def _subfolders(files: Files) -> list[str]:
    """The folders to make below the job's folder, without the parents of others."""
    links = [str(pathlib.PurePosixPath(one).parent) for one in files.links]
    found = {*links, *(file.folder for file in files.configs)} - {""}
    return sorted(one for one in found if not any(other.startswith(f"{one}/") for other in found))


def _link(path: pathlib.PurePosixPath) -> dict[str, ShellText]:
    return {"folder": shell.quote(str(path.parent)), "program": ShellText(path.name)}


def _requests(plan: Plan) -> Sequence[dict[str, ShellText]]:
    if plan.argument_check is None:
        return ()
    from clusterjobs.sections.argument_check import carried_file  # for a preflight alone

    return carried_file(plan)


def _program(name: str) -> dict[str, ShellText]:
    text = resources.node_program(name).rstrip("\n")
    return {"name": ShellText(name), "text": shell.verbatim(text)}
