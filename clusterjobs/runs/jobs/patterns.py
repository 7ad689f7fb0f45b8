"""Finds the points of a sweep for `3,7-9`, a name, or a pattern such as `*lr=3e-4*`. Pure."""

import re
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

from clusterjobs.errors import InputError, Problem, nearest, one_problem

_NUMBER = "[0-9]{1,9}"
_NUMBERS = re.compile(rf" *{_NUMBER}( *- *{_NUMBER})?( *, *{_NUMBER}( *- *{_NUMBER})?)* *")
_DIGITS_OF_DIGEST = 8  # at the end of a name: a shorter number is an index
_MOST_SHOWN = 8  # names in a message


def points_matching(patterns: Sequence[str], points: Mapping[str, int]) -> tuple[str, ...]:
    """The names that at least one pattern matches, in the order of `points` (name -> index).

    A pattern: indexes (`3`, `7-9`, `3,7-9`), a name, or a name with `*` and `?`. A name may
    contain commas, so several names are several patterns. Raises InputError for each pattern, or
    index of it, that matches nothing.
    """
    found: set[str] = set()
    problems: list[Problem] = []
    for pattern in patterns:
        matches = list(_matches(pattern, points))
        found.update(name for names, _ in matches for name in names)
        problems += [problem for names, problem in matches if not names]
    if problems:
        raise InputError(problems)
    return tuple(name for name in points if name in found)


def one_point(text: str, points: Mapping[str, int]) -> str:
    """The name of the point for `text`: its index, its name or a part of its name.

    A number is an index, or the 8 digits at the end of a name: never another part of a name.
    Raises InputError if none or several match.
    """
    if text in points:
        return text
    if text.isdecimal():
        if at := [
            name
            for name, index in points.items()
            if (index == int(text) if len(text) < _DIGITS_OF_DIGEST else name.endswith(f"-{text}"))
        ]:
            return at[-1]  # the newest: the spec may have been changed
        raise InputError([_unknown(text, points)])
    found = [name for name in points if text and (text in name or fnmatchcase(name, text))]
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError([_unknown(text, points)])
    more = f" and {len(found) - _MOST_SHOWN} more" if len(found) > _MOST_SHOWN else ""
    raise one_problem(
        f"{text!r} is a part of several points' names",
        hint=f"one of {', '.join(found[:_MOST_SHOWN])}{more}",
    )


def _matches(pattern: str, points: Mapping[str, int]) -> Iterator[tuple[list[str], Problem]]:
    """The names for each part of the pattern, and the problem if there are none."""
    if pattern in points:  # at once: thousands of names may be given
        yield [pattern], Problem(pattern)
        return
    if not _NUMBERS.fullmatch(pattern):
        names = [name for name in points if fnmatchcase(name, pattern)]
        yield names, _unknown(pattern, points)
        return
    for part in pattern.replace(" ", "").split(","):
        first, _, last = part.partition("-")
        wanted = range(int(first), int(last or first) + 1)
        names = [name for name, index in points.items() if index in wanted]
        yield names, _unknown(part, points)


def _unknown(pattern: str, points: Mapping[str, int]) -> Problem:
    """A pattern that matches no point, with the points that there are."""
    if not points:
        return Problem(f"no point {pattern}", hint="the sweep has no points")
    first, last = min(points.values()), max(points.values())
    numbers = f"the points are 0 to {last}" if not first else f"the points are {first} to {last}"
    start, dash, end = pattern.partition("-")
    if pattern.isdecimal():
        return Problem(f"no point {pattern}", hint=numbers)
    if dash and start.isdecimal() and end.isdecimal():
        backwards = f"write {end}-{start}" if int(start) > int(end) else numbers
        return Problem(f"no points {pattern}", hint=backwards)
    if similar := nearest(pattern, points):
        return Problem(f"no point is named {pattern!r}", hint=f"did you mean {similar}?")
    inside = next((name for name in points if pattern and pattern in name), None)
    quoted = f"names are matched whole: '*{pattern}*' matches {inside}" if inside else ""
    example = f"{numbers}; the first is named {next(iter(points))}"
    return Problem(f"no point is named {pattern!r}", hint=quoted or example)
