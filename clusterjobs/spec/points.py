"""The points of a sweep: their values, names and order.

It knows the keys of `sweep:`; it must not know which keys a spec has.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from clusterjobs.counted import counted
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import did_you_mean
from clusterjobs.spec.point_names import canonical, digests, names
from clusterjobs.spec.random_values import draw
from clusterjobs.spec.references import as_text
from clusterjobs.spec.sweep_keys import KEY, Sweep
from clusterjobs.yaml.document import Path

MAX_POINTS = 10_000


@dataclass(frozen=True)
class Point:
    """One point of a sweep.

    `index` counts from 0 in the order of the spec. `name` is unique, and safe as a file name:
    `0007-lr=3e-4,micro=8-1a2b3c4d`; its last part is `digest`, 8 hex digits of the SHA-256 of
    `values`. The index changes when the sweep is extended in the middle: two names with the same
    digest are the same point. `values`: the swept keys, as paths of the spec, and their values, as
    in `--set`.
    """

    index: int
    name: str
    digest: str
    values: Mapping[str, Any]

    @property
    def label(self) -> str:
        """The name without the index: it stays when the sweep is extended."""
        return self.name.partition("-")[2]


class SweptValue(NamedTuple):
    """A value of a point, and where the spec has it and its key."""

    value: Any
    at: Path
    key_at: Path


Values = Mapping[str, SweptValue]  # of one point


def make_points(sweep: Sweep, diagnostics: Diagnostics) -> list[tuple[Point, Values]]:
    """The points in their order; [] if the sweep is wrong.

    Samples vary slowest and the last grid key or `zip` fastest, so that more samples leave the
    names of the first points as they are. Those of `include` come last.
    """
    _check_keys(sweep, diagnostics)
    _check_random(sweep, diagnostics)
    found = [] if diagnostics.failed else _Product(sweep, diagnostics).points()
    if diagnostics.failed:
        return []
    plain = [{key: one.value for key, one in values.items()} for values in found]
    of_points = digests(plain)
    named = zip(names(plain, of_points), of_points, plain, strict=True)
    points = [Point(index, *one) for index, one in enumerate(named)]
    return list(zip(points, found, strict=True))


def _swept(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """Section and key of everything that is swept, without `include`."""
    for section, keys in (("grid", sweep.grid), ("zip", sweep.zip), ("random", sweep.random)):
        yield from ((section, key) for key in keys)


# ------------------------------------------------------------------ the keys


def _check_keys(sweep: Sweep, diagnostics: Diagnostics) -> None:
    """No key twice, and none inside another; those of `exclude` are swept."""
    places: dict[str, Path] = {}
    for section, key in _swept(sweep):
        path = (KEY, section, key)
        if key in places:
            line = diagnostics.line_of(places[key])
            diagnostics.problem(
                path,
                f"swept twice, also in {places[key][1]} ({line})",
                "remove one of them",
                at_key=True,
            )
        places.setdefault(key, path)
    _check_inside(places, diagnostics)
    for number, entry in enumerate(sweep.include):
        _check_inside({key: (KEY, "include", number, key) for key in entry}, diagnostics)
    for number, entry in enumerate(sweep.exclude):
        _check_exclude(number, entry, list(places), diagnostics)


def _check_inside(places: Mapping[str, Path], diagnostics: Diagnostics) -> None:
    for key, path in places.items():
        outer = next((one for one in _outer_keys(key) if one in places), None)
        if outer:
            what = f"this is inside {outer}, which the same points set"
            diagnostics.problem(path, what, f"write it into the values of {outer}", at_key=True)


def _outer_keys(key: str) -> Iterator[str]:
    while "." in key:
        key = key.rpartition(".")[0]
        yield key


def _check_exclude(
    number: int, entry: Mapping[str, Any], known: Sequence[str], diagnostics: Diagnostics
) -> None:
    path: Path = (KEY, "exclude", number)
    if not entry:
        hint = f"write {{{known[0]}: ...}}" if known else "remove it"
        diagnostics.problem(path, "this would remove every point", hint)
    for key in entry:
        if key not in known:
            what = f"{key} is not swept, so that no point can be excluded by it"
            hint = did_you_mean(key, known) if known else "remove it"
            diagnostics.problem((*path, key), what, hint, at_key=True)


def _check_random(sweep: Sweep, diagnostics: Diagnostics) -> None:
    if sweep.random and sweep.samples is None:
        hint = "write samples: 20 beside it"
        diagnostics.problem((KEY, "random"), "samples is missing", hint, at_key=True)
    if sweep.samples is not None and not sweep.random:
        what = "there is nothing to draw: the sweep has no random"
        hint = "remove it, or write random: {args.lr: {log_uniform: [1e-4, 1e-2]}}"
        diagnostics.problem((KEY, "samples"), what, hint, at_key=True)


# ------------------------------------------------------------------ the product


class _Product:
    """Combines the values, and reports lists that cannot be combined."""

    def __init__(self, sweep: Sweep, diagnostics: Diagnostics) -> None:
        self.sweep, self.diagnostics = sweep, diagnostics

    def points(self) -> list[Values]:
        """The values of each point, each set of values once; [] if there is a problem."""
        grid = [self._axis(key, values) for key, values in self.sweep.grid.items()]
        zipped = self._zip()
        self._check_number([len(axis) for axis in (*grid, *([zipped] if zipped else []))])
        if self.diagnostics.failed:
            return []
        axes = [*grid, *([zipped] if zipped else [])]
        nothing_drawn: list[Values] = [{}] if axes else []
        samples = self._samples() if self.sweep.random else nothing_drawn
        combined = [
            _together((*parts, drawn)) for drawn in samples for parts in itertools.product(*axes)
        ]
        kept = self._without_excluded(combined)
        found = {_identity(values): values for values in reversed(kept)}
        points = list(reversed(found.values())) if len(found) < len(kept) else kept
        return [*points, *self._included(points)]

    def _axis(self, key: str, values: Sequence[Any]) -> list[Values]:
        path = (KEY, "grid", key)
        found: dict[str, Values] = {}
        for index, value in enumerate(values):
            known = found.setdefault(
                canonical(value), {key: SweptValue(value, (*path, index), path)}
            )
            if known[key].at != (*path, index):
                what = f"{_shown(value)} is in the list twice"
                first = known[key].value
                if _shown(first) != _shown(value):
                    what = f"{_shown(value)} is equal to {_shown(first)}, which is in the list"
                self.diagnostics.problem((*path, index), what, "remove one of them")
        return list(found.values())

    def _zip(self) -> list[Values]:
        """The rows of `zip`."""
        lengths = {key: len(values) for key, values in self.sweep.zip.items()}
        if len(set(lengths.values())) > 1:
            (first, length), *others = lengths.items()
            key, other = next(one for one in others if one[1] != length)
            self.diagnostics.problem(
                (KEY, "zip", key),
                f"{counted(other, 'value')}, and {first} has {length}",
                "zip takes the lists side by side: write lists of the same length, or use grid",
            )
            return []
        rows: list[Values] = [
            {
                key: SweptValue(values[index], (KEY, "zip", key, index), (KEY, "zip", key))
                for key, values in self.sweep.zip.items()
            }
            for index in range(next(iter(lengths.values()), 0))
        ]
        known: dict[str, int] = {}
        for index, row in enumerate(rows):
            first_row = known.setdefault(_identity(row), index)
            if first_row != index:
                what = f"the values at place {index + 1} are those at place {first_row + 1}"
                where = next(iter(row.values())).at
                self.diagnostics.problem(where, what, "remove them from each list of zip")
        return rows

    def _samples(self) -> list[Values]:
        return [
            {key: self._drawn(key, wanted, index) for key, wanted in self.sweep.random.items()}
            for index in range(self.sweep.samples or 0)
        ]

    def _drawn(self, key: str, wanted: Mapping[str, Any], index: int) -> SweptValue:
        value, item = draw(wanted, self.sweep.seed, key, index)
        path = (KEY, "random", key)
        return SweptValue(value, path if item is None else (*path, "choice", item), path)

    def _check_number(self, lengths: Sequence[int]) -> None:
        factors = [*([self.sweep.samples or 0] if self.sweep.random else []), *lengths]
        number = (math.prod(factors) if factors else 0) + len(self.sweep.include)
        if number > MAX_POINTS:
            what = f"{number:,} points are more than {MAX_POINTS:,}"
            product = " x ".join(map(str, factors))
            hint = f"they are {product}: shorten a list, or write random and samples instead"
            self.diagnostics.problem((KEY,), what, hint, at_key=True)
        elif not number and not self.diagnostics.failed:
            what = "the sweep has no points"
            self.diagnostics.problem(
                (KEY,), what, "write grid: {args.lr: [1e-3, 1e-4]}", at_key=True
            )

    def _without_excluded(self, points: list[Values]) -> list[Values]:
        rules = [
            {key: canonical(value) for key, value in entry.items()} for entry in self.sweep.exclude
        ]
        left = points
        for rule in rules:
            left = [
                values
                for values in left
                if any(canonical(values[key].value) != value for key, value in rule.items())
            ]
        if points and not left and not self.sweep.include:
            what = f"no point is left of {counted(len(points), 'point')}"
            hint = "remove a rule, or add values to the lists"
            self.diagnostics.problem((KEY, "exclude"), what, hint, at_key=True)
        return left

    def _included(self, points: Iterable[Values]) -> Iterator[Values]:
        known = {_identity(values) for values in points}
        for number, entry in enumerate(self.sweep.include):
            path = (KEY, "include", number)
            values = {
                key: SweptValue(value, (*path, key), (*path, key)) for key, value in entry.items()
            }
            identity = _identity(values)
            if identity in known:
                self.diagnostics.problem(path, "this point is in the sweep already", "remove it")
            known.add(identity)
            yield values


def _together(parts: Iterable[Values]) -> Values:
    return {key: value for part in parts for key, value in part.items()}


def _identity(values: Values) -> str:
    return canonical({key: one.value for key, one in values.items()})


def _shown(value: Any) -> str:
    return as_text(value) if not isinstance(value, (dict, list)) else canonical(value)
