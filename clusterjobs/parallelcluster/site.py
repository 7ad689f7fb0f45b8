"""A site's values put into a parsed ParallelCluster config.

This layer knows references and where they stand; it must not know what the config means. A value
goes into the parsed scalar, so it can never change the structure around it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import Problem, nearest
from clusterjobs.spec.references import BadReferenceError, Scalar, expand, look_up
from clusterjobs.yaml.document import Document, Path


class Unresolved(NamedTuple):
    """A scalar that could not be rendered: `names` are the site values that it lacks."""

    path: Path
    names: tuple[str, ...]
    message: str = ""


class Substitution:
    """The config's data with the site's values in it.

    `value` has None where a scalar is `unresolved`; `replaced` has what every scalar with a
    reference became.
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


def _render_scalar(
    value: str, path: Path, site: Mapping[str, object], result: Substitution
) -> Scalar:
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
    """The value of `site.x`; None where the site does not give it, or leaves it blank."""
    if not name.startswith("site."):
        raise BadReferenceError(
            f"{name} is not known here: a cluster config holds only site values, {{{{ site.x }}}}"
        )
    try:
        found = look_up(name, {"site": site})
    except BadReferenceError as error:
        if "not a single value" in str(error):
            raise
        return None
    if isinstance(found, str) and "\0" in found:
        raise BadReferenceError(f"{name} holds a NUL character")
    return found


def unresolved_problems(
    document: Document,
    substitution: Substitution,
    site: Mapping[str, object],
    site_files: Sequence[str] = (),
) -> list[Problem]:
    """One problem for every site value that is missing, and for every reference that is none."""
    problems: dict[str, Problem] = {}
    for unresolved in substitution.unresolved:
        where = document.locate(unresolved.path)
        dotted = ".".join(map(str, unresolved.path))
        if unresolved.message:
            problems[dotted] = Problem(unresolved.message, where, dotted, hint=_LITERAL_HINT)
        for name in unresolved.names:
            problem = Problem(f"{name} is not given", where, dotted, _hint(name, site, site_files))
            problems.setdefault(name, problem)
    return list(problems.values())


_LITERAL_HINT = "for the characters {{ themselves write {{ '{{' }}"


def _hint(name: str, site: Mapping[str, object], site_files: Sequence[str]) -> str:
    keys = name.removeprefix("site.").split(".")
    entry = "..."
    for key in reversed(keys[1:]):
        entry = f"{{{key}: {entry}}}"
    file = site_files[0] if site_files else "site.yaml"
    hint = f"{file}: {keys[0]}: {entry}"
    if len(site_files) > 1:
        hint += f" (searched: {', '.join(site_files)})"
    if similar := nearest(keys[0], [str(key) for key in site if str(key) != keys[0]]):
        hint += f"; or did you mean site.{similar}?"
    return hint
