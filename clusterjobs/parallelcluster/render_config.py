"""The text of `cluster.yaml`: an admin's config with the site's values and what a job needs.

This module knows text, positions and YAML's scalars; other modules decide what a job needs. Only
scalars with references are replaced, and entries are added with a comment that gives the reason, so
the admin's comments and order are kept.
"""

from __future__ import annotations

import copy
import pathlib
import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import yaml

from clusterjobs.cluster.facts import BucketLink
from clusterjobs.errors import InputError, Problem, one_problem
from clusterjobs.parallelcluster.associations import (
    ASSOCIATIONS,
    Addition,
    plan_additions,
)
from clusterjobs.parallelcluster.coerce import bare_placeholders
from clusterjobs.parallelcluster.edit_yaml import insert_entry
from clusterjobs.parallelcluster.site import (
    MissingValuesError,
    Substitution,
    missing_values,
    substitute,
    unresolved_problems,
)
from clusterjobs.spec.references import Scalar
from clusterjobs.yaml.document import Document, dotted, load

# Text that needs no quotes, neither in block nor in flow style.
_PLAIN = re.compile(r"[A-Za-z](?:[\w/-]|\.(?=\w))*(?:://[\w./-]*[\w/])?", re.ASCII)
_ANCHOR = re.compile(r"(?:![^\s]*\s+)?(&[^\s]+\s+)")


class FitChange(NamedTuple):
    """One change beyond the site's values: what was done at `path`, and why."""

    path: str
    what: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.what} ({self.reason})"


class Fitted(NamedTuple):
    """`cluster.yaml`, the changes for the job, and the problems.

    `data` is the content of the text; `problems` include warnings.
    """

    text: str
    data: dict[str, Any]
    changes: tuple[FitChange, ...]
    problems: tuple[Problem, ...]


def fit_cluster(
    document: Document, site: Mapping[str, object], site_files: Sequence[str] = ()
) -> str:
    """The document's text with every reference replaced, and a header that says so.

    Raises MissingValuesError for missing site values (`site_files` are those searched),
    and InputError for bad references and where unquoted placeholders make the config no YAML.
    """
    return fit(document, site, site_files).text


def fit(
    document: Document,
    site: Mapping[str, object],
    site_files: Sequence[str] = (),
    wanted: Sequence[BucketLink] = (),
) -> Fitted:
    """The same, with the links to buckets that a job wants. Raises InputError as `fit_cluster`."""
    if "Scheduling" not in (document.value or {}):
        raise UnwritableError(
            [Problem("the config is inside another file", document.locate(()), hint=_HOW_TO_SAVE)]
        )
    _check_bare_placeholders(document)
    substitution = substitute(document, site)
    if unresolved := unresolved_problems(document, substitution, site, site_files):
        only_missing = len(unresolved) == 1 and missing_values(substitution)
        raise (MissingValuesError if only_missing else InputError)(unresolved)
    text = _replace_scalars(document, substitution)
    _assert_same_data(text, document.file, substitution.value)
    additions, problems = plan_additions(substitution.value, wanted)
    current = load(text, document.file, rules="1.1")
    for addition in additions:
        current = _add(current, addition)
    changes = tuple(_change(addition) for addition in additions)
    text = _header(document.file) + current.text
    return Fitted(text, current.value, changes, tuple(problems))


_HOW_TO_SAVE = "save what stands under ClusterConfiguration in a file of its own"


class UnwritableError(InputError):
    """The config can be read, but with its placeholders it is not valid YAML."""


def _check_bare_placeholders(document: Document) -> None:
    """Raise UnwritableError if unquoted placeholders make the config invalid YAML."""
    try:
        load(document.text, document.file, rules="1.1")
    except InputError as error:
        found = bare_placeholders(document.text)
        if not found:
            raise
        index, placeholder = found[0]
        line = document.text.count("\n", 0, index) + 1
        more = f", and {len(found) - 1} more" if len(found) > 1 else ""
        what = f"{placeholder.strip()} was not filled in ({document.file}:{line}{more})"
        where = error.problems[0].where
        raise UnwritableError([Problem(what, where, hint="fill the template in")]) from None


def _add(document: Document, addition: Addition) -> Document:
    """The document with the entry. Raises InputError if a YAML anchor prevents it."""
    expected = copy.deepcopy(document.value)
    settings = expected
    for step in addition.settings:
        settings = settings[step]
    settings[ASSOCIATIONS] = [*(settings.get(ASSOCIATIONS) or []), addition.entry]
    comment = f"Added by clusterjobs: {_printable(addition.reason)}"
    text = insert_entry(document, addition.settings, ASSOCIATIONS, addition.entry, comment)
    result = load(text, document.file, rules="1.1")
    if result.value != expected:
        where = document.locate_key(addition.settings)
        raise one_problem("an association cannot be added here", where, hint=_ANCHOR_HINT)
    return result


_ANCHOR_HINT = "write the settings of this file system out, without anchors and aliases"


def _change(addition: Addition) -> FitChange:
    entry = addition.entry
    what = f"added {entry['Name']}, {entry['FileSystemPath']} with {entry['DataRepositoryPath']}"
    return FitChange(dotted((*addition.settings, ASSOCIATIONS)), what, addition.reason)


def _replace_scalars(document: Document, substitution: Substitution) -> str:
    """Replace each span of text once: an alias is a second path to the same span."""
    spans = {document.span(path): value for path, value in substitution.replaced.items()}
    text = document.text
    for (start, end), value in sorted(spans.items(), reverse=True):
        text = text[:start] + _replacement(text[start:end], value) + text[end:]
    return text


def _replacement(written: str, value: Scalar) -> str:
    """The text that replaces `written`, which may start with an anchor and end with line breaks."""
    anchor = _ANCHOR.match(written)
    behind = written[len(written.rstrip()) :]
    return (anchor[1] if anchor else "") + dump_scalar(value) + behind


def dump_scalar(value: Scalar) -> str:
    """One line of YAML 1.1 that is read back as exactly this value, in block and flow style."""
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
    """Assert that the text is read back as the same data and types; a failure is a bug."""
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
