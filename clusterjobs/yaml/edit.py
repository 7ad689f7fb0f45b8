"""Changes single values of YAML text; comments, order and all other text are kept."""

import json
import re
from typing import Any

from clusterjobs.yaml.document import Document, Path, load, look_at

_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")


def set_value(text: str, file: str, path: Path, value: Any) -> str:
    """The text with `value` at `path`, whose keys are added where they are missing."""
    document = load(text, file)
    known = _known(document.value, path)
    if len(known) == len(path):
        start, end = document.span(path)
        return text[:start] + scalar(value) + text[end:]
    rest = path[len(known) :]
    if known and look_at(document.value, known) is None:
        start, end = document.span(known)
        return f"{document.text[:start]} {{{_flow(rest, value)}}}{document.text[end:]}"
    return _add(document, known, rest, value)


def scalar(value: Any) -> str:
    """A number, truth value or plain word as YAML 1.2 reads it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return repr(value)
    is_word = _PLAIN.fullmatch(value) and value.lower() not in ("true", "false", "null")
    return value if is_word else json.dumps(value, ensure_ascii=False)


def _known(data: Any, path: Path) -> Path:
    """The longest part of the path that is there."""
    for length, step in enumerate(path):
        if not isinstance(data, dict) or step not in data:
            return path[:length]
        data = data[step]
    return path


def _flow(rest: Path, value: Any) -> str:
    """`a: {b: 1}` for the path a.b."""
    text = f"{rest[-1]}: {scalar(value)}"
    for key in reversed(rest[:-1]):
        text = f"{key}: {{{text}}}"
    return text


def _add(document: Document, known: Path, rest: Path, value: Any) -> str:
    """A new entry as the last of the mapping at `known`."""
    text = document.text
    start, end = document.span(known)
    if text[start] == "{":
        inner = text[: end - 1].rstrip()
        separator = "" if inner[-1] == "{" else " " if inner[-1] == "," else ", "
        return f"{inner}{separator}{_flow(rest, value)}{text[end - 1 :]}"
    if not isinstance(look_at(document.value, known), dict):
        raise ValueError(f"{known} is no mapping")
    indent = " " * (start - (text.rfind("\n", 0, start) + 1))
    line_end = text.find("\n", _last_end(document, known))
    line_end = len(text) if line_end < 0 else line_end
    tail = text[line_end:] or "\n"
    ending = "\r" if text[:line_end].endswith("\r") else ""  # of a file with CRLF
    return f"{text[:line_end]}\n{indent}{_flow(rest, value)}{ending}{tail}"


def _last_end(document: Document, path: Path) -> int:
    """The end of the last scalar or flow below `path`: a block's own end is after its comments."""
    value = look_at(document.value, path)
    start, end = document.span(path)
    if document.text[start] in "[{" or not isinstance(value, (dict, list)) or not value:
        return end
    last = len(value) - 1 if isinstance(value, list) else list(value)[-1]
    return _last_end(document, (*path, last))
