"""What libyaml or its reader says of text that is no YAML, in words that help.

It knows YAML's syntax; where a file is read, and what its values mean, is not known here.
"""

from __future__ import annotations

import re

import yaml

from clusterjobs.errors import Location, Problem

# To libyaml these break lines, and it folds them away inside quotes; to an editor they do not, and
# to YAML 1.2 only the carriage return does. A value would change unseen, and lines be miscounted.
OTHER_BREAK = re.compile("\r(?!\n)|[\x85\u2028\u2029]|[\ud800-\udfff]")


def other_break(found: re.Match[str], text: str, file: str) -> Problem:
    """The problem of a match of OTHER_BREAK."""
    line = text.count("\n", 0, found.start())
    column = found.start() - (text.rfind("\n", 0, found.start()) + 1)
    where = Location(file, line + 1, column + 1, line_of(text, line))
    character = found[0]
    if "\ud800" <= character <= "\udfff":
        return Problem("not UTF-8 text", where, hint="write it as UTF-8")
    escape = {"\r": "\\r", "\x85": "\\x85"}.get(character, f"\\u{ord(character):04x}")
    return Problem(
        f"the character U+{ord(character):04X} breaks lines for some readers of YAML and not for "
        "others",
        where,
        hint=f'remove it, or write "{escape}" in double quotes where it is meant',
    )


def line_of(text: str, number: int) -> str:
    """The line of that number, counted from 0, without its end."""
    lines = text.split("\n", number + 1)
    return lines[number].rstrip("\r") if number < len(lines) else ""


def syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """What PyYAML could not read, at its place, with what is usually the cause."""
    mark = getattr(error, "problem_mark", None)
    what = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
    if mark is None:  # a reader error counts characters, not lines
        position = getattr(error, "position", 0) or 0
        line = text.count("\n", 0, position)
        column = position - (text.rfind("\n", 0, position) + 1)
        character = getattr(error, "character", None)
        if isinstance(character, int):
            what = f"the character U+{character:04X} is not allowed in YAML"
    else:
        mark, what = _opening(error, mark, what, text)
        line, column = mark.line, mark.column
    where = Location(file, line + 1, column + 1, line_of(text, line))
    return Problem(f"not YAML: {what}", where, hint=_syntax_hint(what, where.source))


def _opening(error: yaml.YAMLError, mark: yaml.Mark, what: str, text: str) -> tuple[yaml.Mark, str]:
    """Where something was opened, if the file ended before it was closed."""
    opened = getattr(error, "context_mark", None)
    if opened is None or mark.line < len(text.rstrip().splitlines()):
        return mark, what
    return opened, "opened here and never closed"


def _syntax_hint(what: str, source: str) -> str:
    if "\t" in source:
        return "YAML is indented with spaces, never with tabs"
    if "mapping values are not allowed" in what:
        return "a value that contains ': ' must be quoted"
    if "cannot start any token" in what:
        return "a value that starts with @, %, ` or another sign of YAML must be quoted"
    if "alias" in what or "alphabetic or numeric" in what:
        return "a value that starts with * or & must be quoted"
    if "never closed" in what:
        return "add the closing quote, bracket or brace"
    if "another document" in what:
        return "one document a file: remove the line ---"
    return "check quotes, brackets and indentation around this place"
