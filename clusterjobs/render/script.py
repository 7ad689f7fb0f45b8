"""Renders job.sh from a plan: the templates with the texts of all sections."""

from __future__ import annotations

from typing import Any, NamedTuple

from clusterjobs.plan.plan import Plan
from clusterjobs.plan.point_table import PointTable
from clusterjobs.render.checkpoints import checkpoints_context
from clusterjobs.render.container import container_context
from clusterjobs.render.environment import environment_context
from clusterjobs.render.files import files_context
from clusterjobs.render.inputs import Inputs
from clusterjobs.render.job import job_context
from clusterjobs.render.launch import launch_context
from clusterjobs.render.placement import placement_context
from clusterjobs.render.plan_record import joined_records, plan_json
from clusterjobs.render.points import points_context
from clusterjobs.render.preflight import preflight_context
from clusterjobs.render.restarts import restarts_context
from clusterjobs.render.roles import roles_context
from clusterjobs.render.site.templates import (
    PACKAGED,
    SiteFile,
    site_context,
    with_used_files,
)
from clusterjobs.render.staging import staging_context
from clusterjobs.render.steps import steps_context
from clusterjobs.render.template_environment import template_environment


class Script(NamedTuple):
    """The text of job.sh, the templates that it was made from, and the site's files among them."""

    text: str
    templates: tuple[str, ...]
    site_files: tuple[SiteFile, ...]


def render_script(plan: Plan, inputs: Inputs, table: PointTable | None = None) -> Script:
    """Render job.sh; of a sweep, with its points. Raises InputError if a site's template is wrong.

    Raises UnquotedError if a packaged template prints a value that is not quoted.
    """
    site, further = inputs.templates, plan.launch.launcher.template_folder
    environment = template_environment(further, site)
    environment.used.clear()
    context = template_context(plan, inputs, table)
    if not site.files:
        text = environment.get_template("job.sh.j2").render(context)
        return Script(text, tuple(sorted(environment.used)), ())
    from clusterjobs.render.site.script import render_with_site  # only for a site with templates

    text = render_with_site(environment, context, site, (further,) if further else ())
    own = site.used(environment.used)
    packaged = environment.used.difference(site.overrides())
    names = {name.removeprefix(PACKAGED) for name in packaged}
    return Script(with_used_files(text, own), tuple(sorted(names)), own)


def template_context(plan: Plan, inputs: Inputs, table: PointTable | None = None) -> dict[str, Any]:
    """The variables of the templates: one per section of the plan."""
    record = plan_json(plan, inputs)
    if table:
        record, table = joined_records(table, inputs)
    return {
        "job": job_context(plan, inputs.spec[0], inputs.settings),
        "placement": placement_context(plan),
        "environment": environment_context(plan),
        "files": files_context(plan, record),
        "checkpoints": checkpoints_context(plan),
        "preflight": preflight_context(plan),
        "staging": staging_context(plan),
        "steps": steps_context(plan, inputs.templates),
        "container": container_context(plan),
        "launch": launch_context(plan),
        "restarts": restarts_context(plan),
        "roles": roles_context(plan),
        "points": points_context(plan, table, record),
        "site": site_context(inputs.templates),
    }
