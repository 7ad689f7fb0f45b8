"""What went wrong while a site's templates were rendered, with the position in the template."""

from __future__ import annotations

import re

import jinja2

from clusterjobs.errors import Problem
from clusterjobs.render.shell import UnquotedError
from clusterjobs.render.site.syntax import at, syntax_problem
from clusterjobs.render.site.templates import SiteFile, SiteTemplates

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
