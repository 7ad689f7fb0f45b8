"""Problems with the user's input, as exceptions and records. Other modules print them."""

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple


class Location(NamedTuple):
    """A span of one source line. `line` and `column` count from 1, in characters."""

    file: str
    line: int
    column: int
    source: str = ""
    width: int = 1

    def __str__(self) -> str:
        is_setting = self.file == "--set"  # its text follows in the message
        return self.file if is_setting else f"{self.file}:{self.line}:{self.column}"

    @property
    def line_in_file(self) -> str:
        """`exp.yaml:12`, to name a second position in a message; of a setting `--set nodes=4`."""
        return f"--set {self.source}" if self.file == "--set" else f"{self.file}:{self.line}"


class BrokenRule(NamedTuple):
    """The rule of a site's policy that a value breaks, and where the rule is written."""

    name: str
    file: str
    line: int

    def __str__(self) -> str:
        return f"rule {self.name}, {self.file}:{self.line}"


class Problem(NamedTuple):
    """One problem: `what` is wrong, `where`, and a `hint` on what to do.

    `path` is the dotted path of the value (`batch.global`). Without a `where` the problem
    concerns the whole input. A warning is shown but does not stop the command; `info` is a
    warning that needs no action. `validator`: the ParallelCluster validator that reported it.
    `rule`: the rule of a site's policy that is broken; the hint is then the admin's own message.
    `points`: the names of a sweep's points that have it; () if all have it, or without a sweep.
    `meant`: the key at the top of a spec that the value at `path` probably belongs to.
    """

    what: str
    where: Location | None = None
    path: str = ""
    hint: str = ""
    warning: bool = False
    info: bool = False
    validator: str = ""
    rule: BrokenRule | None = None
    points: tuple[str, ...] = ()
    meant: str = ""


class InputError(Exception):
    """The user's input is wrong. Contains all problems that were found."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(_line_of, self.problems)))


def _line_of(problem: Problem) -> str:
    """The problem in one line: its place, its key, and what is wrong."""
    place = f"{problem.where} " if problem.where else ""
    return f"{place}{problem.path}: {problem.what}" if problem.path else f"{place}{problem.what}"


def one_problem(
    what: str, where: Location | None = None, path: str = "", hint: str = ""
) -> InputError:
    """An InputError with a single problem."""
    return InputError([Problem(what, where, path, hint)])


def in_order(problems: Iterable[Problem]) -> list[Problem]:
    """The problems in the order of the files, one per value; an error takes precedence.

    Rules of a policy are all reported, also several that one value breaks.
    """
    first: dict[object, Problem] = {}
    for problem in sorted(problems, key=lambda one: one.warning):
        one_per_value = problem.path and not problem.rule and not problem.points
        first.setdefault((problem.where, problem.path) if one_per_value else problem, problem)
    return sorted(first.values(), key=_reading_order)


def _reading_order(problem: Problem) -> tuple[bool, str, int, int]:
    where = problem.where
    return (True, "", 0, 0) if where is None else (False, where.file, where.line, where.column)


def nearest(word: str, known: Iterable[str], cutoff: float = 0.6) -> str | None:
    """The name in `known` that is most similar to `word`; None if none is similar."""
    import difflib  # only needed after a mistake

    known = list(known)
    if alike := [one for one in known if one.casefold() == word.casefold()]:
        return alike[0]
    matches = difflib.get_close_matches(word, known, n=3, cutoff=cutoff)
    swapped = [match for match in matches if sorted(match) == sorted(word)]
    longer = [one for one in known if len(one) > 2 and word.startswith(one)]  # `environment`
    return next(iter([*swapped, *matches, *sorted(longer, key=len, reverse=True)]), None)


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """A hint with the most similar name of `known`, or else with all of them."""
    if match := nearest(word, known):
        return f"did you mean {match}?"
    return "known: " + ", ".join(known) if known else ""


def counted(number: int, noun: str) -> str:
    """`1 node`, `2 nodes`, `1,000 nodes`."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


# ------------------------------------------------------------------ problems of points
# The problems of a sweep's points as one list.


_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")


class Found(NamedTuple):
    """A point's name and its problems."""

    point: str
    problems: Iterable[Problem]


def of_points(found: Iterable[Found], total: int) -> list[Problem]:
    """Each problem once, with the names of its points; without names if all `total` have it.

    Problems of one value whose texts differ in numbers alone are the same. Those of a single point
    stay as they are.
    """
    if total == 1:
        return [problem for one in found for problem in one.problems]
    first: dict[Problem, Problem] = {}
    names: dict[Problem, list[str]] = {}
    for point, problems in found:
        for problem in in_order(problems):
            same = problem._replace(what=_like(problem.what), hint=_like(problem.hint))
            first.setdefault(same, problem)
            names.setdefault(same, []).append(point)
    return in_order(
        problem if len(names[same]) == total else problem._replace(points=tuple(names[same]))
        for same, problem in first.items()
    )


def _like(text: str) -> str:
    return _NUMBER.sub("0", text)
