"""Checks whether the sections of a sweep fit each other: no key twice, `samples` with `random`.

It must not know which keys a spec has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import did_you_mean
from clusterjobs.spec.sweep_keys import KEY, Sweep
from clusterjobs.yaml.document import Path


def check_sections(sweep: Sweep, diagnostics: Diagnostics) -> None:
    """Report sections that contradict each other."""
    _check_keys(sweep, diagnostics)
    _check_random(sweep, diagnostics)


def _swept(sweep: Sweep) -> Iterator[tuple[str, str]]:
    """Section and key of everything that is swept, without `include`."""
    for section, keys in (("grid", sweep.grid), ("zip", sweep.zip), ("random", sweep.random)):
        yield from ((section, key) for key in keys)


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
