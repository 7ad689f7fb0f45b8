"""Which line of a site's template a line of the rendered script comes from, found by its text."""

import re
from collections.abc import Iterable

from clusterjobs.errors import InputError, Location, Problem
from clusterjobs.script.parts import PROGRAMS
from clusterjobs.script.shell_check import bash_complaint
from clusterjobs.script.site import SiteFile, SiteTemplates, at
from clusterjobs.script.site.expressions import used_names


def line_origin(line: str, files: Iterable[SiteFile]) -> Location | None:
    """The position of a script's line in the site's files; None if it is in none of them."""
    text = line.strip()
    for file in files:
        for number, one in enumerate(file.text.split("\n"), 1):
            if text and _may_print(one.strip(), text):
                return at(file, number)
    return None


_VALUE = re.compile(r"\{\{.*?\}\}|\{%.*?%\}")


def _may_print(template: str, text: str) -> bool:
    """Whether a template's line prints the text: its variables may have any value."""
    if template == text:
        return True
    literal = _VALUE.split(template)
    if len(literal) == 1 or len("".join(literal).strip()) < 4:
        return False
    return re.fullmatch(".*".join(map(re.escape, literal)), text) is not None


def replaced_by(name: str, site: SiteTemplates) -> Location | None:
    """The site's file that took the place of a packaged template, or of one that includes it."""
    overrides = site.overrides()
    if file := overrides.get(name):
        return Location(file.file, 1, 1)
    for file in overrides.values():
        for number, line in enumerate(file.text.split("\n"), 1):
            if any(one.endswith(name) for one in used_names(line)):
                return at(file, number, name)
    whole = overrides.get("job.sh.j2")
    return Location(whole.file, 1, 1) if whole else None


# ------------------------------------------------------------------ script syntax
# Whether bash can read a script with a site's templates, and which line of them is wrong.


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
