"""Problems of text that is not valid YAML: libyaml's errors with a position and a hint.

It knows YAML's syntax; it must not know what the values mean.
"""

from __future__ import annotations

import re

import yaml

from clusterjobs.errors import Location, Problem
from clusterjobs.yaml.causes import find_cause

# libyaml treats these as line breaks and folds them inside quotes. Editors do not, and in YAML 1.2
# only the carriage return is one. Values would change silently, and line numbers would be wrong.
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
        f"the character U+{ord(character):04X}, a line break only for some YAML parsers",
        where,
        hint=f'remove it, or write "{escape}" in double quotes',
    )


def line_of(text: str, number: int) -> str:
    """Line `number`, counted from 0, without its line break."""
    lines = text.split("\n", number + 1)
    return lines[number].rstrip("\r") if number < len(lines) else ""


def syntax_problem(error: yaml.YAMLError, text: str, file: str) -> Problem:
    """The problem of PyYAML's error, with a hint at the usual cause."""
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
        begun = getattr(error, "context_mark", None)
        if cause := find_cause(text, mark.line, begun and begun.line):
            where = Location(file, cause.line + 1, cause.column + 1, line_of(text, cause.line))
            return Problem(f"not YAML: {cause.what}", where, hint=cause.hint)
        mark, what = _opening(error, mark, what, text)
        line, column = mark.line, mark.column
    where = Location(file, line + 1, column + 1, line_of(text, line))
    return Problem(f"not YAML: {what}", where, hint=_syntax_hint(what, where.source))


def _opening(error: yaml.YAMLError, mark: yaml.Mark, what: str, text: str) -> tuple[yaml.Mark, str]:
    """The position of an opening quote or bracket, if the file ends before it is closed."""
    opened = getattr(error, "context_mark", None)
    if opened is None or mark.line < len(text.rstrip().splitlines()):
        return mark, what
    return opened, "opened here and not closed"


def _syntax_hint(what: str, source: str) -> str:
    if "\t" in source:
        return "indent with spaces: YAML does not allow tabs"
    if "mapping values are not allowed" in what:
        return "quote a value that contains ': '"
    if "cannot start any token" in what:
        return "quote a value that starts with @, %, ` or another special character of YAML"
    if "alias" in what or "alphabetic or numeric" in what:
        return "quote a value that starts with * or &"
    if "not closed" in what:
        return "add the closing quote, bracket or brace"
    if "another document" in what:
        return "a file holds one document: remove the line ---"
    return "check quotes, brackets and indentation here"
