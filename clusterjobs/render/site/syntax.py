"""A site's template as a syntax tree, and the positions of problems in its text.

Knows Jinja's grammar and its messages; it must not know which variables there are.
"""

from __future__ import annotations

import functools
import re
from typing import Any

import jinja2
from jinja2 import nodes

from clusterjobs.errors import InputError, Location, Problem
from clusterjobs.render.site.templates import SiteFile

# Bash's `${#array[@]}` looks like Jinja's usual comment, hence the delimiters.
SYNTAX: dict[str, Any] = {
    "trim_blocks": True,
    "lstrip_blocks": True,
    "keep_trailing_newline": True,
    "comment_start_string": "{##",
    "comment_end_string": "##}",
}


@functools.lru_cache(maxsize=256)
def parse(file: SiteFile) -> nodes.Template:
    """The syntax tree. Raises InputError with the position of the mistake."""
    try:
        return jinja2.Environment(**SYNTAX).parse(file.text)
    except jinja2.TemplateSyntaxError as error:
        raise InputError([syntax_problem(file, error)]) from None
    except RecursionError:
        raise InputError([Problem("nested too deep", at(file, 1))]) from None


def at(file: SiteFile, line: int, text: str = "") -> Location:
    """The position of `text` in a line of the file, or of the line's own text."""
    source = (file.text.split("\n") + [""] * line)[line - 1]
    column = source.find(text) if text else -1
    if column < 0:
        text = source.strip()
        column = source.find(text)
    return Location(file.file, line, column + 1, source, max(1, len(text)))


def syntax_problem(file: SiteFile, error: jinja2.TemplateSyntaxError) -> Problem:
    """What Jinja says, at the position of what it complains about."""
    said = error.message or "not a template"
    if tag := re.search(r"The innermost block that needs to be closed is '(\w+)'", said):
        where = _unclosed(file, tag[1])
        return Problem(
            f"{{% {tag[1]} %}} is not closed", where, hint=f"write {{% end{tag[1]} %}} after it"
        )
    hint = "in a template, bash's own {{, {% and {## must be inside {% raw %} and {% endraw %}"
    if "unknown tag" in said:
        hint = "known: block, extends, for, if, include, raw, with, and the ends of them"
    return Problem(
        f"not a template: {_lower(said)}", _complaint(file, error.lineno, said), "", hint
    )


def _lower(said: str) -> str:
    return said[:1].lower() + said[1:].rstrip(".")


def _complaint(file: SiteFile, line: int, said: str) -> Location:
    """The word that the message quotes last, inside the braces of its line, or the braces."""
    source = (file.text.split("\n") + [""] * line)[line - 1]
    if not source.strip():  # the end of the file
        line = len(file.text.rstrip().split("\n"))
        source = file.text.split("\n")[line - 1]
    braces = re.search(r"\{[{%#].*", source)
    for word in reversed(re.findall(r"""['"](.+?)['"](?!\w)""", said)):
        found = source.find(word, braces.start() + 2 if braces else 0)
        if found >= 0:
            return Location(file.file, line, found + 1, source, len(word))
    return at(file, line, braces[0].rstrip() if braces else "")


_TAG = re.compile(r"\{%[-+]?\s*(raw|\w+)|\{##.*?##\}", re.DOTALL)
_PAIRED = ("if", "for", "block", "with", "macro", "call", "filter", "set", "autoescape")


def _unclosed(file: SiteFile, tag: str) -> Location:
    """The innermost {% tag %} without its end."""
    opened: list[tuple[str, int, str]] = []
    for match in _TAG.finditer(file.text):
        name = match[1] or ""
        if name in _PAIRED:
            line = file.text.count("\n", 0, match.start()) + 1
            opened.append((name, line, match[0]))
        elif name.startswith("end") and opened:
            opened.pop()
    last = next((one for one in reversed(opened) if one[0] == tag), (tag, 1, ""))
    return at(file, last[1], last[2])
