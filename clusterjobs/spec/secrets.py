"""Detection of secrets in a spec: they are refused, and never printed.

Specs are shared and committed, so a spec has only the names of secrets; the node reads the values
when the job runs.
"""

import re
from collections.abc import Iterator
from typing import Any

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Location, Problem
from clusterjobs.text import Text, show
from clusterjobs.yaml.document import Path, dotted

# Formats as documented by their issuers.
_LOOKS = {
    "an AWS access key": r"\b(?:AKIA|ASIA)[A-Z0-9]{16}\b",
    "a Hugging Face token": r"\bhf_[A-Za-z0-9]{30,}\b",
    "a GitHub token": r"\b(?:gh[pousr]_[A-Za-z0-9]{36,}|github_pat_\w{40,})\b",
    "a W&B key": r"\bwandb_v1_\w{40,}|(?i:wandb\w*key\W{1,4})[0-9a-f]{40}\b",
    "an API key": r"\bsk-(?:proj-|ant-)?[A-Za-z0-9_-]{32,}",
    "a Slack token": r"\bxox[abprs]-[A-Za-z0-9-]{20,}",
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
}
_ANY_LOOK = re.compile("|".join(_LOOKS.values()))
_SECRET_NAME = re.compile(r"(?i)(?:api_?key|access_?key|secret|token|passw(?:or)?d)$")
_RANDOM = re.compile(r"[A-Za-z0-9+/=_.~-]{20,}")
_KEY_NAME, _LONG_KEY = re.compile(r"(?i)key$"), re.compile(r"[A-Za-z0-9]{32,}")
_PASSWORD_NAME = re.compile(r"(?i)passw(?:or)?d$")
_HINT = "write only its name under secrets:, and revoke this one: it is in a file now"


def find_secrets(data: Any, source: Locator) -> list[Problem]:
    """A problem for each value that looks like a secret, without the value itself."""
    return [
        Problem(f"looks like {kind}", _without_text(source.locate(path)), dotted(path), _HINT)
        for path, value in _texts(data, ())
        if (kind := _kind(path, value))
    ]


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _texts(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))
    elif isinstance(value, (str, Text)) and value:
        yield path, show(value)


def _kind(path: Path, value: str) -> str | None:
    if len(value) >= 16 and _ANY_LOOK.search(value):
        return next(kind for kind, pattern in _LOOKS.items() if re.search(pattern, value))
    name = _key_of(path).replace("-", "_")
    if _PASSWORD_NAME.search(name) and "${" not in value and "{{" not in value:
        return "a password"
    is_secret = _SECRET_NAME.search(name) and _RANDOM.fullmatch(value)
    is_key = _KEY_NAME.search(name) and _LONG_KEY.fullmatch(value)
    if (is_secret or is_key) and any(character.isdigit() for character in value):
        return "the value of a secret"
    return None


def _key_of(path: Path) -> str:
    """The key of a value; of an item of a list, also of choices to draw from, that of the list.

    Of `env: {NAME: {value: ...}}` it is the name.
    """
    keys = [step for step in path if isinstance(step, str) and step not in ("choice", "value")]
    return keys[-1] if keys else ""


def _without_text(where: Location) -> Location:
    return Location(where.file, where.line, where.column)
