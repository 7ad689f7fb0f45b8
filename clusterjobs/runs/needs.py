"""Reads the specs that a spec needs, and those that they need, into a graph."""

import sys
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.console import printable, table
from clusterjobs.errors import InputError, Problem, counted, in_order
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.sites.folders import shown_name
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.spec.need_graph import NeedGraph, NeedingSpec, SpecNeed, need_problems
from clusterjobs.spec.need_references import KEY, CircleError
from clusterjobs.yaml.document import dotted


def read_need_graph(files: SpecFiles, points: Sequence[LoadedSpec]) -> NeedGraph:
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

    def add(self, files: SpecFiles, points: Sequence[LoadedSpec]) -> None:
        """The spec, after all that it needs."""
        needs = tuple(self._needs(files, points[0]))
        file = shown_name(files.spec)
        self.specs[files.identity] = NeedingSpec(file, files.identity, tuple(points), needs)

    def _needs(self, files: SpecFiles, loaded: LoadedSpec) -> Iterator[SpecNeed]:
        for index, need in enumerate(loaded.spec.needs):
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


# ------------------------------------------------------------------ drawing
# Draws what a spec needs: a tree for the terminal, Mermaid, and data for a script.


class _Lines(NamedTuple):
    """The line characters of a tree: before an item, before the last one, and below each."""

    item: str
    last: str
    below: str
    nothing: str = "   "


_UNICODE, _ASCII = _Lines("├─ ", "└─ ", "│  "), _Lines("|- ", "`- ", "|  ")


def drawn_graph(graph: NeedGraph) -> str:
    """The spec, with what it needs below it, and the order in which the jobs can start."""
    lines = _UNICODE if _can_print(_UNICODE.item) else _ASCII
    root = graph.specs[graph.root]
    rows = [_HEAD, _row(root.file, "", root), *_tree(graph, root, "", lines, {graph.root})]
    order = " -> ".join(printable(one.file) for one in graph.in_order())
    return f"{table(rows)}\n\norder: {order}"


_HEAD = ("spec", "on", "nodes", "points", "time limit")


def _tree(
    graph: NeedGraph, spec: NeedingSpec, margin: str, lines: _Lines, shown: set[str]
) -> Iterator[tuple[str, ...]]:
    for place, need in enumerate(spec.needs, 1):
        is_last = place == len(spec.needs)
        start = margin + (lines.last if is_last else lines.item)
        if need.target is None:
            yield f"{start}job {need.need.job}", need.need.on, "", "", ""
            continue
        other = graph.specs[need.target]
        again = need.target in shown and other.needs
        shown.add(need.target)
        yield _row(f"{start}{other.file}", need.need.on, other, " (above)" if again else "")
        if not again:
            below = margin + (lines.nothing if is_last else lines.below)
            yield from _tree(graph, other, below, lines, shown)


def _row(start: str, on: str, spec: NeedingSpec, end: str = "") -> tuple[str, ...]:
    return (f"{printable(start)}{end}", on, *_facts(spec))


def _facts(spec: NeedingSpec) -> tuple[str, str, str]:
    """Nodes, points, and the time limit, of each point."""
    experiments = [point.spec for point in spec.points]
    limits = dict.fromkeys(one.time_limit or "the partition's" for one in experiments)
    points = str(len(experiments)) if spec.is_sweep else ""
    return _range([one.nodes for one in experiments]), points, ", ".join(limits)


def _range(numbers: list[int]) -> str:
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low}-{high}"


def _can_print(text: str) -> bool:
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True


# ------------------------------------------------------------------ Mermaid


def mermaid_graph(graph: NeedGraph) -> str:
    """The text of a flowchart: https://mermaid.js.org/syntax/flowchart.html."""
    order = graph.in_order()
    names = {one.identity: f"spec{number}" for number, one in enumerate(order, 1)}
    lines = ["flowchart LR"]
    jobs: dict[str, str] = {}
    arrows = []
    for one in order:
        nodes, points, limit = _facts(one)
        facts = [f"{nodes} {'node' if nodes == '1' else 'nodes'}"]
        facts += [counted(int(points), "point")] if points else []
        label = f"{_escaped(one.file)}<br>{_escaped(', '.join([*facts, limit]))}"
        lines.append(f'  {names[one.identity]}["{label}"]')
        for need in one.needs:
            job = need.need.job
            if job and job not in jobs:
                jobs[job] = f"job{job}"
                lines.append(f'  job{job}(["job {job}"])')
            start = jobs[job] if job else names[need.target or ""]
            arrows.append(f"  {start} -->|{need.need.on}| {names[one.identity]}")
    return "\n".join([*lines, *arrows])


def _escaped(text: str) -> str:
    """The text in a quoted label: other characters are written as numbers."""
    return "".join(
        one if one.isalnum() or one in " ._-/,:'" else f"#{ord(one)};" for one in printable(text)
    )


# ------------------------------------------------------------------ data


def graph_data(graph: NeedGraph) -> dict[str, Any]:
    """The graph as data, in the order in which the jobs can start. Names are stable."""
    return {"specs": [_spec_data(graph, one) for one in graph.in_order()]}


def _spec_data(graph: NeedGraph, spec: NeedingSpec) -> dict[str, Any]:
    experiments = [point.spec for point in spec.points]
    return {
        "spec": spec.file,
        "name": spec.loaded.spec.name,
        "nodes": max(one.nodes for one in experiments),
        "points": len(experiments) if spec.is_sweep else None,
        "time_limit": spec.loaded.spec.time_limit,
        "needs": [_need_data(graph, need) for need in spec.needs],
    }


def _need_data(graph: NeedGraph, need: SpecNeed) -> dict[str, Any]:
    file = graph.specs[need.target].file if need.target else None
    return {"spec": file, "job_id": need.need.job, "on": need.need.on}
