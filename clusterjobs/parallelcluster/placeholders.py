"""Finds placeholders of templates that nobody filled in: `${SUBNET}`, `<your subnet>`, `{SUBNET}`.

It knows how people write placeholders; it must not know what a value means. `{{ site.x }}` is no
placeholder: `site.py` replaces it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from clusterjobs.yaml.document import Path

_PLACEHOLDER = re.compile(
    r"<[^<>]+>|\$\{[^}]*\}|\$\([^)]*\)|\$[A-Za-z_]\w*|\A![A-Za-z]|\A[@%]\w+[@%]"
    r"|(?i:\byour[-_]\w+|\bchange[-_]?me\b|\breplace[-_]?(?:me\b|with)|-x{4,}\b|-xx(?:-xx)+\b)"
)
# Arguments of scripts and JSON of Chef may contain such characters themselves.
_CODE = ("Args", "ExtraChefAttributes", "CustomSlurmSettings")


def unfilled(value: Any, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """The path of each placeholder in the config's data, and its text, shortened."""
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in children:
        here = (*path, key)
        if isinstance(inner, str):
            found = None if key in _CODE else _PLACEHOLDER.search(inner)
            if found:
                yield here, inner if len(inner) < 40 else found[0]
        elif _is_braces(inner):
            yield here, f"{{{next(iter(inner))}}}"
        elif isinstance(inner, (dict, list)) and key not in _CODE:
            yield from unfilled(inner, here)


def _is_braces(value: Any) -> bool:
    """`{SUBNET}` without quotes is a YAML mapping of one key without a value."""
    if not (isinstance(value, dict) and len(value) == 1 and None in value.values()):
        return False
    name = str(next(iter(value)))
    return name.isupper() or "_" in name
