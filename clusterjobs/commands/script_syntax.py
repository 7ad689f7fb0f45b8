"""Whether bash can read a script with a site's templates, and which line of them is wrong."""

from __future__ import annotations

import re
from collections.abc import Iterable

from clusterjobs.commands.shell_check import bash_complaint
from clusterjobs.errors import InputError, Location, Problem
from clusterjobs.render.invariants.script_parts import PROGRAMS
from clusterjobs.render.site.script_origin import line_origin
from clusterjobs.render.site.syntax import at
from clusterjobs.render.site.templates import SiteTemplates


def check_bash(texts: Iterable[str], templates: SiteTemplates) -> None:
    """Raise InputError with bash's errors in scripts that a site's templates have changed."""
    problems = {problem: None for text in texts if (problem := bash_problem(text, templates))}
    if problems:
        raise InputError(problems)


def bash_problem(text: str, templates: SiteTemplates) -> Problem | None:
    """The errors that bash finds in a script, without running it."""
    complaint = bash_complaint(text.partition(PROGRAMS)[0] + "\n", warnings=True)
    if complaint is None:
        return None
    line = ["", *text.split("\n"), ""][complaint.line]
    where = line_origin(line, templates.files) or _misfit(templates)
    hint = "look for an `if`, a loop, a quote or a brace that is not closed in the site's template"
    return Problem(f"bash cannot read job.sh: {complaint.said}", where, "", hint)


def _misfit(templates: SiteTemplates) -> Location | None:
    """The line of an override that bash cannot read, or the first override."""
    overrides = list(templates.overrides().values())
    for file in overrides:
        own = re.sub(r"\{[{%#].*?[}%#]\}", "", file.text)
        if complaint := bash_complaint(own):
            last = min(complaint.line, len(file.text.splitlines()))
            return at(file, _unclosed(own) or last)
    return at(overrides[0], 1) if overrides else None


_ENDS = {"if": "fi", "for": "done", "while": "done", "until": "done", "case": "esac"}


def _unclosed(code: str) -> int:
    """The line of the innermost command that is not closed, as far as its words start lines."""
    opened: list[tuple[str, int]] = []
    for number, line in enumerate(code.split("\n"), 1):
        words = re.findall(r"\w+", line)
        first, last = (words[0], words[-1]) if words else ("", "")
        if first in _ENDS and last != _ENDS[first]:
            opened.append((_ENDS[first], number))
        elif opened and first == opened[-1][0]:
            opened.pop()
    return opened[-1][1] if opened else 0
