"""Replaces the references of a parsed ParallelCluster config by the site's values.

A value replaces part of a parsed scalar, so it cannot change the structure around it.
"""

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.clusters.source import short_name
from clusterjobs.errors import InputError, Problem, nearest
from clusterjobs.spec.references import BadReferenceError, Scalar, expand, look_up
from clusterjobs.yaml.document import Document, Path, dotted


class Unresolved(NamedTuple):
    """A scalar with missing site values: `names`."""

    path: Path
    names: tuple[str, ...]
    message: str = ""


class Substitution:
    """The config's data with the site's values.

    `value`: None stands for each `unresolved` scalar. `replaced`: the new values of all scalars
    with a reference.
    """

    def __init__(self) -> None:
        self.value: Any = None
        self.replaced: dict[Path, Scalar] = {}
        self.unresolved: list[Unresolved] = []


def substitute(document: Document, site: Mapping[str, object]) -> Substitution:
    """Render every scalar of the document. Raises nothing: see `unresolved_problems`."""
    result = Substitution()
    result.value = _render(document.value, (), site, result)
    return result


def _render(value: Any, path: Path, site: Mapping[str, object], result: Substitution) -> Any:
    if isinstance(value, dict):
        return {key: _render(item, (*path, key), site, result) for key, item in value.items()}
    if isinstance(value, list):
        return [_render(item, (*path, i), site, result) for i, item in enumerate(value)]
    if not isinstance(value, str) or "{{" not in value:
        return value
    return _render_scalar(value, path, site, result)


# CloudFormation's own references, which it replaces when it makes the cluster.
DYNAMIC_REFERENCE = re.compile(r"\{\{resolve:[^{}]*\}\}")


def _render_scalar(
    value: str, path: Path, site: Mapping[str, object], result: Substitution
) -> Scalar:
    if DYNAMIC_REFERENCE.search(value):
        return value
    missing: list[str] = []

    def lookup(name: str) -> Scalar:
        found = _site_value(name, site)
        if found is None:
            missing.append(name)
        return found

    try:
        rendered = expand(value, lookup)
    except BadReferenceError as error:
        result.unresolved.append(Unresolved(path, (), str(error)))
        return None
    if missing:
        result.unresolved.append(Unresolved(path, tuple(missing)))
        return None
    result.replaced[path] = rendered
    return rendered


def _site_value(name: str, site: Mapping[str, object]) -> Scalar:
    """The value of `site.x`; None if it is missing or blank."""
    if not name.startswith("site."):
        raise BadReferenceError(
            f"{name} is not known here: a cluster config holds only site values, {{{{ site.x }}}}"
        )
    try:
        found: Scalar = look_up(name, {"site": site})
    except BadReferenceError as error:
        if "not a single value" in str(error):
            raise
        return None
    if isinstance(found, str) and "\0" in found:
        raise BadReferenceError(f"{name} holds a NUL character")
    return found


class MissingValuesError(InputError):
    """Site values are missing; the references themselves are valid."""


def missing_values(substitution: Substitution) -> tuple[str, ...]:
    """`site.region`, ...: the missing values, in the order of the config."""
    names = (name for one in substitution.unresolved for name in one.names)
    return tuple(dict.fromkeys(names))


def unresolved_problems(
    document: Document,
    substitution: Substitution,
    site: Mapping[str, object],
    site_files: Sequence[str] = (),
) -> list[Problem]:
    """One problem for all site values that are missing, and one for every bad reference."""
    problems, first = list[Problem](), None
    for unresolved in substitution.unresolved:
        where, path = document.locate(unresolved.path), ".".join(map(str, unresolved.path))
        if unresolved.message:
            problems.append(Problem(unresolved.message, where, path, hint=_LITERAL_HINT))
        elif first is None:
            first = where
    if names := missing_values(substitution):
        hint = _hint(names, document.file, site, site_files)
        problems.append(Problem(not_given(names), first, hint=hint))
    return problems


_LITERAL_HINT = "for the characters {{ themselves write {{ '{{' }}"


def not_given(names: Sequence[str]) -> str:
    """`site.region and site.bucket are not given`."""
    *others, last = names
    return f"{', '.join(others)} and {last} are not given" if others else f"{last} is not given"


def how_to_give(config: str) -> str:
    """The command that adds the missing values to the site.yaml of the working folder."""
    cluster = shlex.quote(short_name(config))
    return f"fill them in after `clusterjobs clusters site {cluster} >> site.yaml`"


def _hint(
    names: Sequence[str], config: str, site: Mapping[str, object], site_files: Sequence[str]
) -> str:
    keys = {name: name.removeprefix("site.").partition(".")[0] for name in names}
    if all(key in site for key in keys.values()):
        return "the site.yaml has these keys without a value: fill them in"
    hint = how_to_give(config)
    if len(site_files) > 1:
        hint += f" (searched: {', '.join(site_files)})"
    for name, key in keys.items():
        if key not in site and (similar := nearest(key, map(str, site))):
            hint += f"; {name}: did you mean site.{similar}?"
    return hint


# ------------------------------------------------------------------ site form
# Makes the lines that a site.yaml lacks for a config, with blank values.


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
