"""Reads the `sweep:` of a merged spec: its points, and the settings that each of them makes.

It knows which keys may be swept; it must not know how a spec is validated or planned.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.diagnostics import Diagnostics, Locator
from clusterjobs.errors import Problem
from clusterjobs.spec.expand_references import expand_references, expanded_text
from clusterjobs.spec.layers import Merged
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.option_models import OptionModels
from clusterjobs.spec.points import Point, SweptValue, make_points
from clusterjobs.spec.settings import Setting, path_of
from clusterjobs.spec.spec_keys import UnknownKeyError, check_key
from clusterjobs.spec.sweep_keys import KEY, Sweep
from clusterjobs.spec.validate import check_model
from clusterjobs.yaml.document import MAX_DEPTH, Path, dotted

# Sections with keys and values of the points: references in these are expanded in each point.
_SECTIONS = ("grid", "zip", "random", "include", "exclude")

_NOT_SWEPT = {
    "name": (
        "all points have the name of the spec",
        "the name of a point is {{ point.name }}",
    ),
    "cluster": ("a sweep runs on one cluster", "write a spec for each cluster"),
    "logs": ("the folders of all points are in one folder", "remove it"),
    "sweep": ("a sweep cannot change itself", "remove it"),
    "needs": ("all points need the same jobs", "remove it"),
    "extends": ("all points extend the same files", "sweep the keys that the files set"),
    "parameters": (
        "parameters are set at submission, for all points",
        "sweep the key that refers to the parameter",
    ),
}


class SweptSpec(NamedTuple):
    """The sweep of a spec.

    `points`: each with the values that it puts into the spec. `notes`: warnings.
    """

    sweep: Sweep
    points: tuple[tuple[Point, tuple[Setting, ...]], ...]
    notes: tuple[Problem, ...]


class _SpecWithSweep(SpecModel):
    sweep: Sweep


def read_sweep(merged: Merged, option_models: OptionModels) -> SweptSpec:
    """The sweep of a spec that has one. Raises InputError with all of its problems."""
    diagnostics = Diagnostics(merged.source)
    data = {KEY: _expanded(merged, diagnostics)}
    found = check_model(_SpecWithSweep, data, merged.source, diagnostics.problems)
    diagnostics.raise_if_failed()
    sweep: Sweep = found.sweep
    name = sweep.name or expanded_text(merged.data, "name")
    if name:
        sweep = sweep.model_copy(update={"name": name})
    points = make_points(sweep, diagnostics)
    _check_keys(sweep, option_models, diagnostics)
    settings = _Settings(merged.source)
    made = tuple((point, settings.of(values)) for point, values in points)
    diagnostics.raise_if_failed()
    return SweptSpec(sweep, made, tuple(diagnostics.problems))


def unused_settings(swept: SweptSpec, settings: Sequence[Setting]) -> Iterator[Problem]:
    """A warning for each `--set` whose key every point sets to its own value."""
    for one in settings:
        steps = {one.path[:end] for end in range(1, len(one.path) + 1)}
        if all(any(own.path in steps for own in values) for _, values in swept.points):
            what = "this key is swept: the points have their own values, and not this one"
            hint = "remove it, or change the values below sweep"
            yield Problem(what, one.key, dotted(one.path), hint, warning=True)


def _expanded(merged: Merged, diagnostics: Diagnostics) -> Any:
    """The sweep's data; references are expanded except in what belongs to single points."""
    data = merged.data[KEY]
    if not isinstance(data, dict):
        return data
    own = {key: value for key, value in data.items() if key not in _SECTIONS}
    found = expand_references({**merged.data, KEY: own}, merged.source, diagnostics.problems, KEY)
    return {**data, **found}


def _check_keys(sweep: Sweep, option_models: OptionModels, diagnostics: Diagnostics) -> None:
    """Every swept key is one that a spec has, and that may differ between points."""
    places: list[tuple[str, Path]] = []
    for section, keys in (("grid", sweep.grid), ("zip", sweep.zip), ("random", sweep.random)):
        places += [(key, (KEY, section, key)) for key in keys]
    for number, entry in enumerate(sweep.include):
        places += [(key, (KEY, "include", number, key)) for key in entry]
    known: dict[str, tuple[str, str] | None] = {}
    for key, path in places:
        if key not in known:
            known[key] = _about(key, option_models)
        if about := known[key]:
            diagnostics.problem(path, *about, at_key=True)


def _about(key: str, option_models: OptionModels) -> tuple[str, str] | None:
    """Why this key cannot be swept, and what to do; None if it can be."""
    path = path_of(key)
    first = str(path[0])
    if first in _NOT_SWEPT:
        why, hint = _NOT_SWEPT[first]
        return f"{first} cannot be swept: {why}", hint
    if (plain := ".".join(map(str, path))) != key:  # args.01, beside args.1
        return f"this is the key {plain}", f"write {plain}"
    if len(path) > MAX_DEPTH:
        return f"nested deeper than {MAX_DEPTH} levels", "is this the right key?"
    try:  # a key of a list is one of each item
        check_key(".".join(step for step in path if isinstance(step, str)), option_models)
    except UnknownKeyError as error:
        is_argument = len(path) == 1 and error.hint.startswith("known: ")
        instead = f"args.{key} for an argument of your program; " if is_argument else ""
        return str(error), instead + error.hint
    return None


class _Settings:
    """Makes the settings of points: one for each value of the spec, which many points share."""

    def __init__(self, source: Locator) -> None:
        self._source = source
        self._known: dict[tuple[Path, int], Setting] = {}

    def of(self, values: Mapping[str, SweptValue]) -> tuple[Setting, ...]:
        """The settings of one point."""
        return tuple(self._setting(key, swept) for key, swept in values.items())

    def _setting(self, key: str, swept: SweptValue) -> Setting:
        place = (swept.at, id(swept.value))
        if place not in self._known:
            where, at_key = self._source.locate(swept.at), self._source.locate_key(swept.key_at)
            self._known[place] = Setting(path_of(key), swept.value, where, at_key, "spec")
        return self._known[place]
