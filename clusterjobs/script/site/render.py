"""Renders job.sh with a site's templates: checked before, and no larger than Slurm accepts."""

from __future__ import annotations

import pathlib
import re
from typing import Any

import jinja2

from clusterjobs.errors import InputError, Problem, in_order, one_problem
from clusterjobs.script.environment import TemplateEnvironment
from clusterjobs.script.shell import UnquotedError
from clusterjobs.script.site.lines import check_lines, set_twice
from clusterjobs.script.site.templates import SiteFile, SiteTemplates, at, syntax_problem

# ------------------------------------------------------------------ errors
#
# What went wrong while a site's templates were rendered, with the position in the template.


# What a template can do wrong; any other exception is ours.
TEMPLATE_ERRORS = (jinja2.TemplateError, UnquotedError, TypeError, RecursionError, AttributeError)


def template_problem(error: Exception, site: SiteTemplates) -> Problem | None:
    """The problem of the site's template that raised it; None if none of them did."""
    files = {file.file: file for file in site.overrides().values()}
    if isinstance(error, jinja2.TemplateSyntaxError):
        file = files.get(error.filename or "")
        return syntax_problem(file, error) if file else None
    import traceback  # only for a mistake

    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        if file := files.get(frame.filename):
            return _problem(error, file, frame.lineno or 1)
    return None


def _problem(error: Exception, file: SiteFile, line: int) -> Problem:
    if isinstance(error, RecursionError):
        what = "these templates include one another without end"
        return Problem(what, at(file, line), hint="include the packaged one: packaged/NAME")
    said = str(error)
    if isinstance(error, jinja2.UndefinedError):
        return _undefined(said, file, line)
    if isinstance(error, jinja2.TemplateNotFound):
        return Problem(f"there is no template {said}", at(file, line, said))
    if isinstance(error, TypeError) and not isinstance(error, UnquotedError):
        hint = "compare numbers with <, <=, > and >=, and texts with == or !="
        return Problem("this template compares different types", at(file, line), "", hint)
    return Problem(f"the template cannot be rendered: {said}", at(file, line))


def _undefined(said: str, file: SiteFile, line: int) -> Problem:
    """A field of a section that this job has not: `'None' has no attribute 'failure'`."""
    name = (re.findall(r"'([^']+)'", said) or [""])[-1]
    source = at(file, line).source
    written = re.search(rf"(\w+)\.{re.escape(name)}\b", source)
    if written is None:
        return Problem(f"there is no variable {name}", at(file, line, name))
    section = written[1]
    what = f"this job has no {section}, so that there is no {written[0]}"
    return Problem(what, at(file, line, written[0]), hint=f"ask first: {{% if {section} %}}")


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
    from clusterjobs.script.site.check import check_site  # most sites have no overrides
    from clusterjobs.script.site.variables import shape_of

    return check_site(site, shape_of(context), folders)


_MAX_SCRIPT = 4 << 20  # Slurm's max_script_size
_TOO_LARGE = (
    "with the templates of this site, job.sh is larger than the 4 MiB that Slurm accepts",
    None,
    "",
    "look for a loop that prints too much",
)
