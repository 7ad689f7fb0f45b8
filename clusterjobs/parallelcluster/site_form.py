"""Makes the lines that a site.yaml lacks for a config, with blank values.

It knows references and their paths in the config; it must not read or write files.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from clusterjobs.parallelcluster.site import missing_values, substitute
from clusterjobs.yaml.document import Document, dotted


class SiteForm(NamedTuple):
    """`lines` can be appended to a site.yaml; the keys in `blank` exist there without a value."""

    lines: tuple[str, ...]
    blank: tuple[str, ...]


def site_form(document: Document, site: Mapping[str, object]) -> SiteForm:
    """The missing values; each line's comment names the key of the config."""
    substitution = substitute(document, site)
    used = {
        name: dotted(one.path) for one in reversed(substitution.unresolved) for name in one.names
    }
    names = [name.removeprefix("site.") for name in missing_values(substitution)]
    tree: dict[str, Any] = {}
    for name in names:
        *outer, last = name.split(".")
        if (outer or [last])[0] in site:
            continue
        branch = tree
        for step in outer:
            branch = branch.setdefault(step, {})
        branch[last] = used[f"site.{name}"]
    blank = tuple(name for name in names if name.partition(".")[0] in site)
    return SiteForm(tuple(_lines(tree, "")), blank)


def _lines(tree: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, inner in tree.items():
        if isinstance(inner, dict):
            yield f"{indent}{key}:"
            yield from _lines(inner, indent + "  ")
        else:
            yield f"{indent}{key}:  # {inner}"
