"""Renders job.sh from a plan: the templates with the texts of all sections."""

from __future__ import annotations

import functools
import pathlib
from typing import Any, NamedTuple

import jinja2

from clusterjobs import resources
from clusterjobs.plan.plan import Plan
from clusterjobs.render import shell
from clusterjobs.render.checkpoints import checkpoints_context
from clusterjobs.render.container import container_context
from clusterjobs.render.environment import environment_context
from clusterjobs.render.files import files_context
from clusterjobs.render.inputs import Inputs
from clusterjobs.render.job import job_context
from clusterjobs.render.launch import launch_context
from clusterjobs.render.placement import placement_context
from clusterjobs.render.plan_record import plan_json
from clusterjobs.render.preflight import preflight_context
from clusterjobs.render.restarts import restarts_context
from clusterjobs.render.staging import staging_context
from clusterjobs.render.steps import steps_context
from clusterjobs.render.template_cache import template_cache


class Script(NamedTuple):
    """The text of job.sh, and the names of the templates that it was made from."""

    text: str
    templates: tuple[str, ...]


def render_script(plan: Plan, inputs: Inputs) -> Script:
    """Render job.sh. Raises UnquotedError if a template prints a value that is not quoted."""
    environment = _environment(plan.launch.launcher.template_folder)
    environment.used.clear()
    text = environment.get_template("job.sh.j2").render(_context(plan, inputs))
    return Script(text, tuple(sorted(environment.used)))


class _Environment(jinja2.Environment):
    """Records which templates a render uses: some are included only under a condition."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**options)
        self.used: set[str] = set()
        self.globals.clear()  # no template uses them, and each include would copy them

    def get_template(self, name: Any, *more: Any, **options: Any) -> jinja2.Template:
        self.used.add(str(name))
        return super().get_template(name, *more, **options)


@functools.cache
def _environment(further: pathlib.Path | None) -> _Environment:
    """`further` is a folder with the templates of another package.

    Bash's `${#array[@]}` looks like Jinja's usual comment, hence the delimiters.
    """
    folders = [resources.templates_dir(), *([further] if further else [])]
    return _Environment(
        loader=jinja2.FileSystemLoader(folders),
        bytecode_cache=template_cache(),
        finalize=shell.finalize,
        undefined=jinja2.StrictUndefined,
        autoescape=False,
        auto_reload=False,  # else each render would check every template on the disk
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        comment_start_string="{##",
        comment_end_string="##}",
    )


def _context(plan: Plan, inputs: Inputs) -> dict[str, Any]:
    """The variables of the templates: one per section of the plan."""
    return {
        "job": job_context(plan, inputs.spec[0], inputs.settings),
        "placement": placement_context(plan),
        "environment": environment_context(plan),
        "files": files_context(plan, plan_json(plan, inputs)),
        "checkpoints": checkpoints_context(plan),
        "preflight": preflight_context(plan),
        "staging": staging_context(plan),
        "steps": steps_context(plan),
        "container": container_context(plan),
        "launch": launch_context(plan),
        "restarts": restarts_context(plan),
    }
