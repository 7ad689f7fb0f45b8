"""The points of a sweep: their values, names and order."""

import decimal
import hashlib
import itertools
import json
import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import counted, did_you_mean
from clusterjobs.spec.keys.sweep import KEY, Point, Sweep
from clusterjobs.spec.references import as_text
from clusterjobs.yaml.document import Path
from clusterjobs.yaml.syntax import number as number_of

# ------------------------------------------------------------------ point names
# Names of points: `0007-lr=3e-4,micro=8-1a2b3c4d`, unique and safe as names of files.


_MAX_LABEL = 60  # characters
_DIGITS = 4  # of the index
_UNSAFE = re.compile(r"[^A-Za-z0-9._=,+-]")
_OWN_VALUES = "spec"  # the label of a point that changes nothing


def canonical(value: Any) -> str:
    """Values as JSON: keys sorted, and numbers that are equal written equally."""
    return json.dumps(_canonical(value), sort_keys=True, separators=(",", ":"))


def _canonical(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _canonical(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_canonical(item) for item in value]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, int) and value.bit_length() > 10_000:  # Python prints no longer ones
        return hex(value)
    return value


def digests(points: Iterable[Mapping[str, Any]]) -> list[str]:
    """8 hex digits for the values of each point; different ones for different points."""
    found: dict[str, None] = {}
    for values in points:
        text = canonical(values)
        digest = _digest(text)
        while digest in found:  # 1 of 100 sweeps with 10,000 points
            digest = _digest(text + digest)
        found[digest] = None
    return list(found)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def names(points: Sequence[Mapping[str, Any]], of_points: Sequence[str]) -> list[str]:
    """The name of each point: index, values, digest."""
    words = _words({key for values in points for key in values})
    digits = max(_DIGITS, len(str(len(points) - 1)))
    return [
        f"{index:0{digits}}-{_label(values, words)}-{digest}"
        for index, (values, digest) in enumerate(zip(points, of_points, strict=True))
    ]


def _label(values: Mapping[str, Any], words: Mapping[str, str]) -> str:
    text = ",".join(f"{words[key]}={_shown(value)}" for key, value in values.items())
    return _UNSAFE.sub("_", text[:_MAX_LABEL]) or _OWN_VALUES


def _shown(value: Any) -> str:
    if isinstance(value, list):
        return "+".join(map(_shown, value))
    if isinstance(value, dict):
        return "+".join(f"{key}={_shown(item)}" for key, item in value.items())
    return as_text(value)


def _words(keys: set[str]) -> dict[str, str]:
    """The last word of each key; more of its words if another key has the same."""
    found: dict[str, str] = {}
    for key in keys:
        steps = key.split(".")
        others = [other.split(".") for other in keys if other != key]
        count = 2 if steps[-1].isdigit() else 1  # an item of a list
        while count < len(steps) and any(steps[-count:] == one[-count:] for one in others):
            count += 1
        found[key] = ".".join(steps[-count:])
    return found


# ------------------------------------------------------------------ sweep checks
# Checks whether the sections of a sweep fit each other: no key twice, `samples` with `random`.


def check_sections(sweep: Sweep, diagnostics: Diagnostics) -> None:
    """Report sections that contradict each other."""
    _check_keys(sweep, diagnostics)
    _check_random(sweep, diagnostics)


def _swept(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """Section and key of everything that is swept, without `include`."""
    for section, keys in (("grid", sweep.grid), ("zip", sweep.zip), ("random", sweep.random)):
        yield from ((section, key) for key in keys)


def _check_keys(sweep: Sweep, diagnostics: Diagnostics) -> None:
    """Refuse keys that stand twice or inside another, and keys of `exclude` that are not swept."""
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
            what = f"{key} is not swept, so it cannot be used in exclude"
            hint = did_you_mean(key, known) if known else "remove it"
            diagnostics.problem((*path, key), what, hint, at_key=True)


def _check_random(sweep: Sweep, diagnostics: Diagnostics) -> None:
    if sweep.random and sweep.samples is None:
        hint = "write samples: 20 beside it"
        diagnostics.problem((KEY, "random"), "samples is missing", hint, at_key=True)
    if sweep.samples is not None and not sweep.random:
        what = "samples is used only with random"
        hint = "remove it, or write random: {args.lr: {log_uniform: [1e-4, 1e-2]}}"
        diagnostics.problem((KEY, "samples"), what, hint, at_key=True)


MAX_POINTS = 10_000


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
    check_sections(sweep, diagnostics)
    found = [] if diagnostics.failed else _Product(sweep, diagnostics).points()
    if diagnostics.failed:
        return []
    plain = [{key: one.value for key, one in values.items()} for values in found]
    of_points = digests(plain)
    named = zip(names(plain, of_points), of_points, plain, strict=True)
    points = [Point(index, *one) for index, one in enumerate(named)]
    return list(zip(points, found, strict=True))


class _Product:
    """Combines the values, and reports lists that cannot be combined."""

    def __init__(self, sweep: Sweep, diagnostics: Diagnostics) -> None:
        self.sweep, self.diagnostics = sweep, diagnostics

    def points(self) -> list[Values]:
        """The values of each point, each set of values once; [] if there is a problem."""
        self._check_number()
        if self.diagnostics.failed:
            return []
        grid = [self._axis(key, values) for key, values in self.sweep.grid.items()]
        zipped = self._zip()
        if any(not problem.warning for problem in self.diagnostics.problems):
            return []
        axes = [*grid, *([zipped] if zipped else [])]
        nothing_drawn: list[Values] = [{}] if axes else []
        samples = self._samples() if self.sweep.random else nothing_drawn
        combined = [
            _together((*parts, drawn)) for drawn in samples for parts in itertools.product(*axes)
        ]
        kept = self._without_excluded(combined)
        found: dict[str, Values] = {}
        for values in kept:  # a repeated sample stays where it was first: indexes are kept
            found.setdefault(_identity(values), values)
        points = list(found.values())
        return [*points, *self._included(points)]

    def _axis(self, key: str, values: Sequence[Any]) -> list[Values]:
        path = (KEY, "grid", key)
        found: dict[str, Values] = {}
        for index, value in enumerate(values):
            known = found.setdefault(
                canonical(value), {key: SweptValue(value, (*path, index), path)}
            )
            if known[key].at != (*path, index):
                what = f"{_value_text(value)} is in the list twice"
                first = known[key].value
                if _value_text(first) != _value_text(value):
                    value_text, first_text = _value_text(value), _value_text(first)
                    what = f"{value_text} is equal to {first_text}, which is in the list"
                self.diagnostics.problem((*path, index), what, "remove one of them")
        return list(found.values())

    def _zip(self) -> list[Values]:
        lengths = {key: len(values) for key, values in self.sweep.zip.items()}
        if len(set(lengths.values())) > 1:
            (first, length), *others = lengths.items()
            key, other = next(one for one in others if one[1] != length)
            self.diagnostics.problem(
                (KEY, "zip", key),
                f"{counted(other, 'value')}, but {first} has {length}",
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
                what = f"item {index + 1} of the lists repeats item {first_row + 1}"
                where = next(iter(row.values())).at
                self.diagnostics.problem(where, what, "remove this item from each list of zip")
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

    def _check_number(self) -> None:
        sweep = self.sweep
        factors = [sweep.samples or 0] if sweep.random else []
        factors += [len(values) for values in sweep.grid.values()]
        factors += [max(map(len, sweep.zip.values()))] if sweep.zip else []
        number = (math.prod(factors) if factors else 0) + len(sweep.include)
        if number > MAX_POINTS:
            what = f"{number:,} points are more than {MAX_POINTS:,}"
            product = " x ".join(map(str, factors))
            hint = f"they are {product}: shorten a list, or write random and samples instead"
            self.diagnostics.problem((KEY,), what, hint, at_key=True)
        elif not number:
            what = "the sweep has no points"
            self.diagnostics.problem(
                (KEY,), what, "write grid: {args.lr: [1e-3, 1e-4]}", at_key=True
            )

    def _without_excluded(self, points: list[Values]) -> list[Values]:
        """The points that no rule of `exclude` matches; a rule without any effect is a warning."""
        left = points
        for number, entry in enumerate(self.sweep.exclude):
            rule = {key: canonical(value) for key, value in entry.items()}
            matched = [_matches(values, rule) for values in points]
            if points and not any(matched):
                what, hint = "no point has these values", "remove it, or correct the values"
                self.diagnostics.problem((KEY, "exclude", number), what, hint, warning=True)
            excluded = {id(one) for one, is_match in zip(points, matched, strict=True) if is_match}
            left = [one for one in left if id(one) not in excluded]
        if points and not left and not self.sweep.include:
            what = f"all points are excluded: {counted(len(points), 'point')}"
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


def _matches(values: Values, rule: Mapping[str, str]) -> bool:
    return all(canonical(values[key].value) == value for key, value in rule.items())


def _identity(values: Values) -> str:
    return canonical({key: one.value for key, one in values.items()})


def _value_text(value: Any) -> str:
    return as_text(value) if not isinstance(value, (dict, list)) else canonical(value)


# ------------------------------------------------------------------ random values
# Value number i of a key depends on the seed, the key and i alone. So the same seed gives the same
# values on every machine and in every version, and more samples keep the first ones.


_BITS = 53
_EXACT = decimal.Context(prec=40)  # logarithms of the C library differ between machines
_SIGNIFICANT = 4  # digits of a drawn number


def draw(wanted: Mapping[str, Any], seed: int, key: str, index: int) -> tuple[Any, int | None]:
    """Value number `index` of a key; for a choice, also the index of the item."""
    ((name, bounds),) = wanted.items()
    text = f"{seed}\n{key}\n{index}".encode()
    bits = int.from_bytes(hashlib.sha256(text).digest()[:8], "big") >> (64 - _BITS)
    if name == "choice":
        item = (bits * len(bounds)) >> _BITS
        return bounds[item], item
    low, high = bounds
    if name == "int_uniform":
        return number_of(str(low + ((bits * (high - low + 1)) >> _BITS))), None
    with decimal.localcontext(_EXACT):
        share = decimal.Decimal(bits) / 2**_BITS
        first, last = decimal.Decimal(float(low)), decimal.Decimal(float(high))
        if name == "log_uniform":
            first, last = first.ln(), last.ln()
        drawn = first + share * (last - first)
        found = float(drawn.exp() if name == "log_uniform" else drawn)
    printed = number_of(_printed(found))
    return (low if printed < low else high if printed > high else printed), None


def _printed(value: float) -> str:
    """The number with few digits, and without an exponent where programs may expect an integer."""
    text = f"{value:.{_SIGNIFICANT}g}"
    return str(math.trunc(float(text))) if "e+" in text else text
