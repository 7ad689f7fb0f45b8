"""Writes lines of YAML with comments, and says which values a description accepts."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from clusterjobs.clusters.described import description as value_types
from clusterjobs.slurm.options import seconds_of, slurm_time

# Text that no YAML reader takes for a number, a truth value or anything else than text.
_PLAIN = re.compile(r"[A-Za-z_/][A-Za-z0-9_./+-]*", re.ASCII)
_NOT_TEXT = frozenset(
    ("true", "false", "yes", "no", "on", "off", "y", "n", "null", "none", "inf", "nan")
)


def scalar(value: object) -> str:
    """A number, a truth value or a text, quoted where YAML needs it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:g}" if abs(value) < 1e6 else repr(value)
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if _PLAIN.fullmatch(text) and text.lower() not in _NOT_TEXT:
        return text
    return json.dumps(text, ensure_ascii=not text.isprintable())


def flow_list(values: Iterable[object]) -> str:
    """`[a, b]`."""
    return f"[{', '.join(map(scalar, values))}]"


def flow_mapping(values: Mapping[str, object]) -> str:
    """`{a: 1, b: 2}`."""
    return f"{{{', '.join(f'{scalar(key)}: {scalar(one)}' for key, one in values.items())}}}"


class Lines:
    """Lines of a YAML file, one key each."""

    def __init__(self) -> None:
        self._lines: list[str] = []
        self.keys = 0

    def comment(self, text: str, depth: int = 0) -> None:
        """A line that is only a comment."""
        self._lines.append(f"{'  ' * depth}# {_one_line(text)}")

    def blank(self) -> None:
        self._lines.append("")

    def key(self, key: str, value: str = "", why: str = "", depth: int = 0) -> None:
        """A key with a value that is YAML already, and its comment."""
        self.keys += 1
        after = f" {value}" if value else ""
        self._lines.append(f"{'  ' * depth}{scalar(key)}:{after}{_comment(why)}")

    def missing(self, key: str, example: str, decides: str, depth: int = 0) -> None:
        """A key that could not be found: a comment with an example, and what the key decides."""
        self._lines.append(f"{'  ' * depth}# {key}: {example}{_comment(decides)}")

    def text(self) -> str:
        return "\n".join(self._lines) + "\n"


def _comment(text: str) -> str:
    return f"  # {_one_line(text)}" if text else ""


def _one_line(text: str) -> str:
    """The text without characters that would end the comment, or change a terminal."""
    return "".join(char if char.isprintable() else "?" for char in text)


# ------------------------------------------------------------------ accepted values
# Names of Slurm that a description refuses are left out of an import.


def is_name(text: str) -> bool:
    """Whether it can be the name of a partition, GRES type, account or QOS."""
    return _accepts(value_types.name, text)


def is_feature(text: str) -> bool:
    return _accepts(value_types.feature, text)


def is_folder(text: str) -> bool:
    return text.startswith("/") and _accepts(value_types.folder, text)


def is_version(text: str) -> bool:
    return _accepts(value_types.version, text)


def max_time(text: str) -> str:
    """Slurm's time limit as a description writes it; "" for one that it cannot have."""
    if text.upper() in ("INFINITE", "UNLIMITED", "-1"):
        return "UNLIMITED"
    seconds = seconds_of(text) if _accepts(value_types.max_time, text) else None
    return slurm_time(seconds) if seconds else ""


def _accepts(check: Callable[[Any], object], text: str) -> bool:
    try:
        check(text)
    except ValueError:
        return False
    return True
