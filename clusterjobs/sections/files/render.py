"""The section `files` of the plan as text: config files, folders, programs for the nodes."""

from __future__ import annotations

import pathlib
from typing import Any

from clusterjobs import resources
from clusterjobs.frameworks.base import ConfigFile
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.plan import Files, Plan
from clusterjobs.sections.rendering import Rendering
from clusterjobs.text import Text, changed


def render(rendering: Rendering) -> dict[str, Any]:
    """What the block `files` prints, and the programs that the script carries."""
    plan, files, record = rendering.plan, rendering.plan.files, rendering.plan_json
    return {
        "is_needed": bool(files.configs or files.folders),
        "configs": [_config(file) for file in files.configs if not isinstance(file.text, Text)],
        "point_configs": [_config(file) for file in files.configs if isinstance(file.text, Text)],
        "folders": [shell.quote(one) for one in files.folders],
        "subfolders": [shell.quote(one) for one in _subfolders(files)],
        "links": [_link(pathlib.PurePosixPath(one)) for one in files.links],
        # That of a sweep is printed by its own block.
        "plan_json": shell.verbatim(record if isinstance(record, str) else ""),
        "needs_python": plan.restarts is not None or plan.preflight is not None,
        "programs": [_program(name) for name in node_programs(plan)],
    }


def has_watchdog(plan: Plan) -> bool:
    """Whether a watchdog stops hanging ranks.

    It acts on a whole job, so packs have none; it would stop ranks that the cluster restarts.
    """
    restarts = plan.restarts
    return restarts is not None and plan.placement.per_node == 1 and not restarts.auto_resume


def node_programs(plan: Plan) -> tuple[str, ...]:
    """The programs that the job carries, and what they import."""
    return resources.with_imports(
        (
            *(("attempt.py",) if plan.restarts else ()),
            *(("watchdog.py",) if has_watchdog(plan) else ()),
            *(plan.preflight.programs if plan.preflight else ()),
            *plan.staging.programs,
            *plan.checkpoints.programs,
            *plan.launch.programs,
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


def _program(name: str) -> dict[str, ShellText]:
    text = resources.node_program(name).rstrip("\n")
    return {"name": ShellText(name), "text": shell.verbatim(text)}
