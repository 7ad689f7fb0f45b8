"""Reads the specs that a spec needs, and those that they need, into a graph.

It knows their files; it must not know the jobs that were submitted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterjobs.commands.files import shown_name
from clusterjobs.commands.spec_files import SpecFiles
from clusterjobs.counted import counted
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.spec.load import Spec
from clusterjobs.spec.need_circle import KEY, CircleError
from clusterjobs.spec.need_graph import NeedGraph, NeedingSpec, SpecNeed, need_problems
from clusterjobs.yaml.document import dotted


def read_need_graph(files: SpecFiles, points: Sequence[Spec]) -> NeedGraph:
    """The spec with all that it needs. `points`: what `files` gave.

    Raises InputError with all problems of the needs, and of the specs that they name.
    """
    reading = _Reading()
    reading.add(files, points)
    graph = NeedGraph(files.identity, reading.specs)
    problems = reading.problems or list(need_problems(graph))
    if problems:
        raise InputError(in_order(problems))
    return graph


class _Reading:
    def __init__(self) -> None:
        self.specs: dict[str, NeedingSpec] = {}
        self.problems: list[Problem] = []
        self._broken: set[str] = set()

    def add(self, files: SpecFiles, points: Sequence[Spec]) -> None:
        """The spec, after all that it needs."""
        needs = tuple(self._needs(files, points[0]))
        file = shown_name(files.spec)
        self.specs[files.identity] = NeedingSpec(file, files.identity, tuple(points), needs)

    def _needs(self, files: SpecFiles, loaded: Spec) -> Iterator[SpecNeed]:
        for index, need in enumerate(loaded.experiment.needs):
            key = "spec" if need.spec else "job"
            where = loaded.source.locate((KEY, index, key))
            if need.spec is None:
                yield SpecNeed(need, None, where)
                continue
            try:
                with files.needed(need.spec, where) as other:
                    self._add_needed(other)
                    yield SpecNeed(need, other.identity, where)
            except CircleError:
                raise
            except InputError as error:
                at_need = Problem(need.spec, where, dotted((KEY, index)))
                self.problems += _with_the_need(error.problems, at_need)

    def _add_needed(self, other: SpecFiles) -> None:
        if other.identity not in self.specs and other.identity not in self._broken:
            self._broken.add(other.identity)
            self.add(other, other.points)
            self._broken.remove(other.identity)


def _with_the_need(problems: Sequence[Problem], need: Problem) -> list[Problem]:
    """The problems of a needed spec, shown at the entry of `needs` or after it.

    `need`: where the entry is, and its file.
    """
    elsewhere = [one.where.file for one in problems if one.where and one.where.source]
    if not elsewhere:  # the file itself cannot be read
        return [need._replace(what=one.what, hint=one.hint) for one in problems]
    what = f"{need.what} has {counted(len(elsewhere), 'problem')}, and this spec needs it"
    return [need._replace(what=what, hint=f"clusterjobs plan {elsewhere[0]}"), *problems]
