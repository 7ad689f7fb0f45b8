"""Problems of text that is not valid YAML, and the types of scalars."""

import re
from collections.abc import Sequence
from typing import Any, Literal, NamedTuple

import yaml
from yaml.nodes import ScalarNode

from clusterjobs.errors import Location, Problem

# ------------------------------------------------------------------ causes
# The usual causes of text that is not YAML, found in the lines before a parser's error.
# A parser notices a mistake late: a quote that is not closed where the next quote opens.


class Cause(NamedTuple):
    """What is wrong at a place: `line` and `column` count from 0."""

    line: int
    column: int
    what: str
    hint: str


def find_cause(text: str, line: int, opened: int | None) -> Cause | None:
    """The cause of an error in `line`. `opened`: the line of what the parser had just begun."""
    lines = text.split("\n")
    line = min(line, len(lines) - 1)  # the end of a text without a last line break is after it
    if "\t" in lines[line]:
        return None
    start = line if opened is None else min(line, opened)
    return (
        _unclosed_quote(lines, line)
        or _bare_reference(lines, line)
        or _unclosed_bracket(lines, start, line)
        or _missing_colon(lines, start)
        or _wrong_indent(lines, line)
    )


# ------------------------------------------------------------------ quotes and brackets

# A quote where a value or a key starts, up to the end of its line.
_OPENING_QUOTE = re.compile(r"""(?:^\s*|: +|- +|[\[{,]\s*)(?P<quote>["'])""")


def _unclosed_quote(lines: Sequence[str], last: int) -> Cause | None:
    """A quote that is closed only by the quote which should open the next value."""
    for number, line in enumerate(lines[: last + 1]):
        column = _open_quote(line)
        if column is None:
            continue
        quote = line[column]
        following = (lines[index] for index in range(number + 1, last + 1))
        closing = next((one for one in following if quote in one), None)
        if closing is not None and re.match(r"\s*[\w/$.{-]", closing.partition(quote)[2]):
            is_whole = re.fullmatch(r"\s*(?:- +)?(?:[\w.-]+: +)?", line[:column])
            hint = f"write {line.strip()}{quote}" if is_whole else f"add the closing {quote}"
            return Cause(number, column, "a quote is opened here and not closed", hint)
    return None


def _open_quote(line: str) -> int | None:
    """The column of a quote that is open at the line's end."""
    position = 0
    while match := _OPENING_QUOTE.search(line, position):
        start = match.start("quote")
        inner = r'"(?:[^"\\]|\\.)*"' if match["quote"] == '"' else "'(?:[^']|'')*'"
        whole = re.compile(inner).match(line, start)
        if whole is None:
            return start
        position = whole.end()
    return None


def _unclosed_bracket(lines: Sequence[str], opened: int, last: int) -> Cause | None:
    """A list or mapping in brackets that still goes on where the next key starts."""
    found = re.match(r"( *)[\w.-]+: +([\[{])", lines[opened]) if opened < last else None
    if found is None or not re.match(rf" {{0,{len(found[1])}}}[\w.-]+:(?: |$)", lines[last]):
        return None
    line = lines[opened].rstrip()
    closing = {"[": "]", "{": "}"}[found[2]]
    what = f"{found[2]} is opened here and not closed"
    return Cause(opened, found.start(2), what, f"write {line.strip()}{closing}")


# ------------------------------------------------------------------ references and colons

_REFERENCE = re.compile(r"(?P<before>^\s*(?:- +)?[\w.-]+: +|^\s*- +|[\[{,:]\s*)(?P<value>\{\{.*)")


def _bare_reference(lines: Sequence[str], number: int) -> Cause | None:
    found = _REFERENCE.search(lines[number]) if number < len(lines) else None
    if found is None:
        return None
    column, value = found.start("value"), found["value"]
    return Cause(number, column, "a reference without quotes", quoted_reference(value))


def quoted_reference(written: str) -> str:
    """The hint for a value that starts with an unquoted reference."""
    value = re.sub(r"\s+#.*", "", written).rstrip()
    is_alone = re.fullmatch(r"\{\{ *[\w.-]+ *\}\}[^\s,\[\]{}]*", value)
    return f'quote the value: "{value}"' if is_alone else 'quote the value: "{{ name }}"'


def _missing_colon(lines: Sequence[str], start: int) -> Cause | None:
    for number in (start, start - 1):
        line = lines[number] if 0 <= number < len(lines) else ""
        if found := re.fullmatch(r"( *)([A-Za-z]\w*):([^\s:/].*)", line):
            what, hint = "no space after the colon", f"write {found[2]}: {found[3].strip()}"
            return Cause(number, found.end(2), what, hint)
        if found := re.fullmatch(r"( *)([A-Za-z]\w*)(?: *=| +(?=[^\s#])) *([^:#]*)", line):
            what, hint = f"no colon after {found[2]}", f"write {found[2]}: {found[3].strip()}"
            return Cause(number, len(found[1]), what, hint)
    return None


# ------------------------------------------------------------------ indentation

_KEY = re.compile(r"(?P<indent> *)(?:- +)?(?P<key>[\w.-]+):(?P<value> +[^\s#].*)?")


def _wrong_indent(lines: Sequence[str], number: int) -> Cause | None:
    """A key that is deeper than the one before, which has a value, or fits no line above."""
    this = _KEY.match(lines[number]) if number < len(lines) else None
    above = [
        (index, found) for index in range(number) if (found := _KEY.match(lines[index])) is not None
    ]
    if this is None or not above:
        return None
    index, before = above[-1]
    indent = len(this["indent"])
    if indent > len(before["indent"]) and before["value"]:
        what = f"{this['key']} is indented deeper than {before['key']}, which has a value already"
    elif indent <= len(before["indent"]) and all(
        len(found["indent"]) != indent for _, found in above
    ):
        what = f"{this['key']} is indented like no line above it"
    else:
        return None
    return Cause(number, indent, what, f"align it with {before['key']} in line {index + 1}")


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


def location_at(text: str, file: str, index: int, width: int) -> Location:
    """The place of a character of the text, and of those that follow it."""
    line = text.count("\n", 0, index)
    column = index - text.rfind("\n", 0, index)
    return Location(file, line + 1, column, line_of(text, line), width)


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
    if "another document" in what:
        hint = "a file holds one document: remove the line ---"
        return Problem("a second YAML document starts here", where, hint=hint)
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
    return "check quotes, brackets and indentation here"


# ------------------------------------------------------------------ scalars
# The type and value of a YAML scalar by two sets of rules.
# "core" is YAML 1.2, for specs; "1.1" is PyYAML, for ParallelCluster's configs. Numbers keep the
# text that they were written as.


Rules = Literal["core", "1.1"]


class WrittenInt(int):
    """An integer with the text it was written as (`0x10`, `007`)."""

    text: str


class WrittenFloat(float):
    """A float with the text it was written as (`1.5e-4`)."""

    text: str


_CORE_INT = re.compile(r"[-+]?[0-9]+$|0o[0-7]+$|0x[0-9a-fA-F]+$")
_CORE_FLOAT = re.compile(
    r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?$"
    r"|[-+]?\.(?:inf|Inf|INF)$|\.(?:nan|NaN|NAN)$"
)
_CORE_WORDS = {
    **dict.fromkeys(("null", "Null", "NULL", "~", ""), "null"),
    **dict.fromkeys(("true", "True", "TRUE", "false", "False", "FALSE"), "bool"),
}
_NUMBER_STARTS = frozenset("0123456789+-.")
STANDARD_TAG = "tag:yaml.org,2002:"
TAG_NAMES = frozenset(("str", "int", "float", "bool", "null", "map", "seq", "merge", "timestamp"))


def core_kind(text: str) -> str:
    """What kind of value a plain scalar is in YAML 1.2."""
    if word := _CORE_WORDS.get(text):
        return word
    if text[0] in _NUMBER_STARTS:
        if _CORE_INT.match(text):
            return "int"
        if _CORE_FLOAT.match(text):
            return "float"
    return "str"


_legacy_resolver = yaml.resolver.Resolver()


def legacy_kind(text: str) -> str:
    """What kind of value a plain scalar is in YAML 1.1, as PyYAML reads it."""
    tag: object = _legacy_resolver.resolve(ScalarNode, text, (True, False))  # type: ignore[no-untyped-call]
    kind = str(tag).removeprefix(STANDARD_TAG)
    return kind if kind in TAG_NAMES else "str"


_legacy_constructor = yaml.constructor.SafeConstructor()
_LEGACY_CONSTRUCT = {
    "int": _legacy_constructor.construct_yaml_int,
    "float": _legacy_constructor.construct_yaml_float,
    "bool": _legacy_constructor.construct_yaml_bool,
}


def _core_int(text: str) -> int:
    base = {"0o": 8, "0x": 16}.get(text[:2], 10)
    number = WrittenInt(text if base == 10 else text[2:], base)
    number.text = text
    return number


def _core_float(text: str) -> float:
    bare = text.lstrip("+-").lower()
    number = WrittenFloat(text.lower().replace(".", "") if bare in (".inf", ".nan") else text)
    number.text = text
    return number


def value_of(kind: str, node: ScalarNode, rules: Rules) -> Any:
    """An int, float or bool. Raises ValueError or KeyError if the text is not one."""
    text: str = node.value
    if rules == "1.1":
        return _LEGACY_CONSTRUCT[kind](node)
    if kind == "bool":
        return {"true": True, "false": False}[text.lower()]
    return _core_int(text) if kind == "int" else _core_float(text)


def number(text: str) -> Any:
    """A number as a spec would have it, written like this."""
    return _core_int(text) if core_kind(text) == "int" else _core_float(text)
