"""Keys that a spec had under another name: what replaces each, as a hint that can be pasted."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Location, Problem
from clusterjobs.yaml.document import Path, dotted


def renamed_key(path: Path, data: Mapping[str, Any], source: Locator) -> Problem | None:
    """The problem of the unknown key at `path`, if it is the old name of another key."""
    if path == ("logs_export",):
        new, instead = "logs.export", _logs(data, source)
    elif path[0] == "data" and path[-1] == "check":
        new, instead = "verify", f"verify: {written_value(source.locate(path))}"
    else:
        return None
    return Problem(
        f"{path[-1]} is now {new}", source.locate_key(path), dotted(path), f"write {instead}"
    )


def _logs(data: Mapping[str, Any], source: Locator) -> str:
    export = written_value(source.locate(("logs_export",)))
    if not isinstance(data.get("logs"), str):
        return f"logs: {{export: {export}}}"
    path = written_value(source.locate(("logs",)))
    return f"logs: {{path: {path}, export: {export}}}, in place of both keys"


def written_value(where: Location) -> str:
    """The value at a position as it is written, quoted if an inline mapping needs it.

    "...": a list or mapping that goes on in the next line.
    """
    text = where.source[where.column - 1 : where.column - 1 + where.width]
    if text.startswith(("[", "{")):
        return text if text[0] + text[-1] in ("[]", "{}") else "..."
    is_plain = not text.startswith(("'", '"')) and any(sign in text for sign in ",[]{}:#")
    return f'"{text}"' if is_plain else text
