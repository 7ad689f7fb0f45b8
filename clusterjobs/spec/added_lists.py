"""The lists of a spec that a layer can add to: `setup: {prepend: [...]}`, `append`, `replace`.

It knows which keys are such lists; it must not know what layers are.
"""

from __future__ import annotations

from typing import Any

from clusterjobs.diagnostics import Locator
from clusterjobs.errors import Problem, did_you_mean
from clusterjobs.yaml.document import Path, dotted

# The value says whether the list may also be one block of text.
LISTS: dict[Path, bool] = {
    ("setup",): True,
    ("software", "setup"): True,
    ("software", "source"): False,
    ("software", "modules"): False,
    ("software", "container", "mounts"): False,
    ("data",): False,
    ("before",): False,
    ("after",): False,
    ("sidecars",): False,
    ("configs",): False,
}
WORDS = ("prepend", "append", "replace")


def read_words(
    value: Any, path: Path, place: Path, text: Locator, problems: list[Problem]
) -> dict[str, Any] | None:
    """The words of `value` that are valid; None if it is no mapping.

    `path` is the list's key, and `place` where `value` is in `text`.
    """
    if not isinstance(value, dict):
        return None
    found: dict[str, Any] = {}
    for word, items in value.items():
        inner, name = (*place, word), dotted((*path, word))
        if word not in WORDS:
            hint = did_you_mean(word, WORDS)
            problems.append(Problem(f"unknown key {word}", text.locate_key(inner), name, hint))
        elif not can_be_added_to(items, path):
            hint = "write `[a, b]`, or lines that start with `- `"
            problems.append(Problem("expected a list", text.locate(inner), name, hint))
        elif word == "replace" and len(value) > 1:
            what = "replace cannot be combined with the others"
            hint = "put all items into its list"
            problems.append(Problem(what, text.locate_key(inner), name, hint))
        else:
            found[word] = items
    return found


def can_be_added_to(value: Any, path: Path) -> bool:
    """Whether the value of a list's key is a list, or a block of text where that is one."""
    return isinstance(value, list) or (isinstance(value, str) and LISTS[path])
