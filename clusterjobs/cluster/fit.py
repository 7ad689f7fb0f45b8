"""The text of `cluster.yaml`: an admin's config with the site's values in it.

This floor knows text, positions and YAML's scalars; it must not know what any key means. Only
the scalars with references are replaced, where they stand, so comments and order stay as the
admin wrote them.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any

import yaml

from clusterjobs.cluster.site import Substitution, substitute, unresolved_problems
from clusterjobs.errors import InputError, one_problem
from clusterjobs.spec.references import Scalar
from clusterjobs.yaml_source import Document, load

# What needs no quotes, in block or flow, whatever stands around it.
_PLAIN = re.compile(r"[A-Za-z](?:[\w/-]|\.(?=\w))*(?:://[\w./-]*[\w/])?", re.ASCII)
_ANCHOR = re.compile(r"(?:![^\s]*\s+)?(&[^\s]+\s+)")


def fit_cluster(
    document: Document, site: Mapping[str, object], site_files: Sequence[str] = ()
) -> str:
    """The document's text with every reference replaced, and a header that says so.

    Raises InputError with every site value that is missing (the hint names the first of
    `site_files`), and where unquoted placeholders make the config no YAML.
    """
    if "Scheduling" not in (document.value or {}):
        raise one_problem(
            "a config inside another file cannot be written as cluster.yaml",
            document.locate(()),
            hint="save what stands under ClusterConfiguration in a file of its own",
        )
    load(document.text, document.file, rules="1.1")  # facts are read around bare placeholders
    substitution = substitute(document, site)
    if problems := unresolved_problems(document, substitution, site, site_files):
        raise InputError(problems)
    text = _replace_scalars(document, substitution)
    _assert_same_data(text, document.file, substitution.value)
    return _header(document.file) + text


def _replace_scalars(document: Document, substitution: Substitution) -> str:
    """Spans, not paths, are replaced: an alias is a second path to the same text."""
    spans = {document.span(path): value for path, value in substitution.replaced.items()}
    text = document.text
    for (start, end), value in sorted(spans.items(), reverse=True):
        text = text[:start] + _replacement(text[start:end], value) + text[end:]
    return text


def _replacement(written: str, value: Scalar) -> str:
    """The value in place of `written`, which may hold an anchor in front and line ends behind."""
    anchor = _ANCHOR.match(written)
    behind = written[len(written.rstrip()) :]
    return (anchor[1] if anchor else "") + dump_scalar(value) + behind


def dump_scalar(value: Scalar) -> str:
    """One line of YAML 1.1 that reads back as exactly this value, in a block or in a flow."""
    if isinstance(value, str):
        return value if _needs_no_quotes(value) else _quoted(value)
    if isinstance(value, float):
        return yaml.safe_dump(float(value)).split("\n")[0]
    if isinstance(value, bool):
        return "true" if value else "false"
    return "null" if value is None else str(int(value))


def _needs_no_quotes(text: str) -> bool:
    """Words such as `yes` and `null` look plain, but are not text in YAML 1.1."""
    return bool(_PLAIN.fullmatch(text)) and load(text, "", rules="1.1").value == text


def _quoted(text: str) -> str:
    dumped: str = yaml.dump(text, default_style='"', width=float("inf"), allow_unicode=True)
    return dumped.rstrip("\n")


def _assert_same_data(text: str, file: str, expected: Any) -> None:
    """Our bug, never the user's, if what was written does not read back: compared with types."""
    if repr(load(text, file, rules="1.1").value) != repr(expected):
        raise AssertionError(f"{file}: the fitted text does not hold the substituted data")


def _header(file: str) -> str:
    name = _printable(pathlib.PurePath(file).name)
    return (
        f"# Written by clusterjobs from {name} and the values of the site.\n"
        "# Do not edit: change those, and render again.\n\n"
    )


def _printable(name: str) -> str:
    return "".join(character if character.isprintable() else "?" for character in name)
