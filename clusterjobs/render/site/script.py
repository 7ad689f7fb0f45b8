"""Renders job.sh with a site's templates: checked before, and no larger than Slurm accepts."""

from __future__ import annotations

import pathlib
from typing import Any

from clusterjobs.errors import InputError, Problem, in_order, one_problem
from clusterjobs.render.site.errors import TEMPLATE_ERRORS, template_problem
from clusterjobs.render.site.lines import check_lines, set_twice
from clusterjobs.render.site.templates import SiteTemplates
from clusterjobs.render.template_environment import TemplateEnvironment


def render_with_site(
    environment: TemplateEnvironment,
    context: dict[str, Any],
    site: SiteTemplates,
    folders: tuple[pathlib.Path, ...],
) -> str:
    """The text of job.sh. Raises InputError with the positions of what is wrong."""
    problems = _problems(site, context, folders)
    if problems := [*problems, *set_twice(site, context["job"]["directives"])]:
        raise InputError(problems)
    parts: list[str] = []
    size = 0
    try:
        for part in environment.get_template("job.sh.j2").generate(context):
            parts.append(part)
            size += len(part)
            if size > _MAX_SCRIPT:
                raise one_problem(*_TOO_LARGE)
    except TEMPLATE_ERRORS as error:
        if problem := template_problem(error, site):
            raise InputError([problem]) from None
        raise
    return "".join(parts)


def _problems(
    site: SiteTemplates, context: dict[str, Any], folders: tuple[pathlib.Path, ...]
) -> list[Problem]:
    if not site.overrides():
        return in_order(check_lines(site))
    from clusterjobs.render.site.check import check_site  # most sites have no overrides
    from clusterjobs.render.site.variables import shape_of

    return check_site(site, shape_of(context), folders)


_MAX_SCRIPT = 4 << 20  # Slurm's max_script_size
_TOO_LARGE = (
    "with the templates of this site, job.sh is larger than the 4 MiB that Slurm accepts",
    None,
    "",
    "look for a loop that prints too much",
)
