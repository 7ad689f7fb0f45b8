"""Makes one spec of all launches of a script: launches that differ only in values are a sweep.

A script has several launches if it is a job array, if one of its lines launches in a loop, or if it
submits several jobs. Each launch is imported alone. Values that differ are swept, or refer to a
swept value that they contain: `out/lr-{{ args.lr }}`.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import yaml

from clusterjobs.importing.scripts.directives import Size, read_array
from clusterjobs.importing.scripts.spec import Entry, Imported, Job, Line, import_job
from clusterjobs.importing.yaml_lines import scalar

_MOST_POINTS = 100  # each is imported and planned alone
_WIDTH = 100
_SAME = ("name", "cluster", "logs")  # of all points of a sweep
_REFERRED = re.compile(r"args\.[A-Za-z_][\w-]*")
_PATH = re.compile(r"[A-Za-z_][\w.-]*", re.ASCII)
_DOT = "\0"  # in a name, which is not one of a path
_PRIVATE = 0xE000  # characters that no script has: placeholders


def import_script(text: str, files: Mapping[str, str], cluster: str, name: str) -> Imported:
    """The spec of a script. `files`: other scripts beside it. Raises InputError as `record`."""
    found = _imported(Job(text, files, cluster, name))
    return _of_all(found, name) if found.points else found


def _of_all(sweep: Imported, name: str) -> Imported:
    """The sweep without names and folders of single points."""
    differ = {
        key
        for key in ("name", "logs")
        if len({one.value for point in sweep.points for one in point.entries if one.key == key}) > 1
    }
    entries = [
        one._replace(value=scalar(name)) if one.key == "name" and "name" in differ else one
        for one in sweep.entries
        if one.key != "logs" or "logs" not in differ
    ]
    return sweep._replace(entries=tuple(entries))


def _imported(job: Job) -> Imported:
    whole = import_job(job)
    if whole.submitted:
        return _of_submissions(whole)
    indexes, running = read_array(whole.array)
    if indexes and not job.given.array_index:
        jobs = [job._replace(given=job.given._replace(array_index=str(one))) for one in indexes]
        found = _of_launches(whole, jobs, running, "the tasks of the array")
        return found if found.points or not whole.has_array else whole
    if whole.launches > 1 and job.launch is None:
        jobs = [job._replace(launch=number) for number in range(whole.launches)]
        found = _of_launches(whole, jobs, None, "the launches of the loop")
        note = (
            "each launch is a job of its own, and needs no other one: the script runs them in one"
        )
        return found._replace(assumed=(*found.assumed, note)) if found.points else found
    return whole


def _of_submissions(driver: Imported) -> Imported:
    jobs = driver.submitted
    points: list[Imported] = []
    one = _imported(jobs[0])
    for number, job in enumerate(jobs):
        found = _imported(job) if number else one
        points += found.points or (found,)
        if len(points) > _MOST_POINTS:
            break
    if len(jobs) > 1:
        one = _as_sweep(one, points, None, "the jobs that the script submits")
    return one._replace(
        missing=tuple(sorted({*driver.missing, *one.missing})),
        assumed=(*driver.assumed, *one.assumed),
    )


def _of_launches(whole: Imported, jobs: list[Job], running: int | None, what: str) -> Imported:
    points = [import_job(one) for one in jobs[: _MOST_POINTS + 1]]
    return _as_sweep(whole, points, running, what)


def _as_sweep(
    whole: Imported, points: Sequence[Imported], running: int | None, what: str
) -> Imported:
    """One spec for all points; else `whole`, with the reason. `running`: how many run at a time."""
    try:
        sweep = _Sweep(points)
    except _NoSweepError as error:
        line = Line(0, what, f"no sweep: {error}")
        return whole._replace(missing=tuple(sorted({*whole.missing, line})))
    limit = f"\n  max_running: {running}" if running else ""
    sizes = [one.size for one in points]
    return points[0]._replace(
        entries=(*sweep.entries, Entry("sweep", f"{sweep.text}{limit}")),
        missing=tuple(sorted({line for one in points for line in one.missing})),
        assumed=tuple(dict.fromkeys(text for one in points for text in one.assumed)),
        size=Size(max(one.nodes for one in sizes), *sizes[0][1:]),
        unknown_variables={
            name: lines for one in points for name, lines in one.unknown_variables.items()
        },
        points=tuple(points),
    )


class _NoSweepError(Exception):
    """The reason why launches are not the points of a sweep."""


class _Sweep:
    """The `entries` that all points have in common, and the `text` of the key `sweep`."""

    def __init__(self, points: Sequence[Imported]) -> None:
        self._references: dict[str, str] = {}  # path -> the text that all points have
        self._swept: dict[str, list[str]] = {}  # path -> the value of each point
        if len(points) > _MOST_POINTS:
            raise _NoSweepError(f"there are more than {_MOST_POINTS}")
        trees = _comparable(points)
        differing = {
            path: [tree[path] for tree in trees]
            for path in trees[0]
            if any(_shown(tree[path]) != _shown(trees[0][path]) for tree in trees)
        }
        if not differing:
            same = "all launch the same words with the same variables"
            raise _NoSweepError(f"{same}; restarts continue a training: docs/restarts.md")
        if "env.CUDA_VISIBLE_DEVICES" in differing:
            raise _NoSweepError("they share a node's GPUs: docs/packing.md has sweep.per_node")
        for path, nodes in sorted(differing.items(), key=_shortest_argument_first):
            self._add(path, nodes)
        kept = [one for one in points[0].entries if one.key not in self._swept or one.key != "args"]
        self.entries = tuple(map(self._entry, kept))
        for path, common in self._references.items():
            if not any(common in one.value for one in self.entries):
                raise _NoSweepError(f"{path} differs")
        self.text = self._lists()

    def _add(self, path: str, nodes: Sequence[yaml.Node]) -> None:
        """A value that differs: a reference if a swept value says it all."""
        common = self._in_common(nodes)
        if common is not None:
            self._references[path] = common
            return
        if not _PATH.fullmatch(path):
            raise _NoSweepError(f"no path names {path.replace(_DOT, '.')}, which differs")
        self._swept[path] = [_shown(one) for one in nodes]

    def _in_common(self, nodes: Sequence[yaml.Node]) -> str | None:
        """The value with references to swept ones, if it is then the same for all points."""
        first = nodes[0]
        if isinstance(first, yaml.ScalarNode):
            found = {self._referring(number, one) for number, one in enumerate(nodes)}
            return found.pop() if len(found) == 1 else None
        inner = [_children(one) for one in nodes]
        if any(len(one) != len(inner[0]) for one in inner):
            return None
        done = [self._in_common(same) for same in zip(*inner, strict=True)]
        if None in done:
            return None
        return _flow(first, [one or "" for one in done])

    def _referring(self, number: int, node: yaml.Node) -> str:
        """A value of the point with this number, whose swept values are replaced by references."""
        if not isinstance(node, yaml.ScalarNode):
            return ""
        text = str(node.value)
        names = [path for path in self._swept if _REFERRED.fullmatch(path)]
        longest = sorted(names, key=lambda path: -len(self._swept[path][number]))
        for path in longest:
            value = self._swept[path][number].strip('"')
            place = rf"(?<![\w.]){re.escape(value)}(?![\w.]|-\d)"
            text = re.sub(place, chr(_PRIVATE + names.index(path)), text)
        if text == node.value:
            return _shown(node)
        for index, path in enumerate(names):
            text = text.replace(chr(_PRIVATE + index), f"{{{{ {path} }}}}")
        return scalar(text)

    def _entry(self, entry: Entry) -> Entry:
        """The entry with its references."""
        if entry.key in self._references:
            return entry._replace(value=self._references[entry.key])
        lines = entry.value.split("\n")
        for number, line in enumerate(lines[1:], 1):
            name = line.strip().partition(": ")[0].strip('"').replace(".", _DOT)
            if reference := self._references.get(f"{entry.key}.{name}"):
                lines[number] = f"{line.partition(': ')[0]}: {reference}"
        return entry._replace(value="\n".join(lines))

    def _lists(self) -> str:
        """`grid` if the points are all combinations of the values, else `zip`."""
        rows = list(zip(*self._swept.values(), strict=True))
        if len({*rows}) < len(rows):
            raise _NoSweepError("some launch the same words with the same variables")
        columns = {path: [*dict.fromkeys(values)] for path, values in self._swept.items()}
        last_first = sorted(
            columns, key=lambda path: self._swept[path].index(columns[path][1]), reverse=True
        )
        in_order = list(zip(*(self._swept[path] for path in last_first), strict=True))
        if [*itertools.product(*(columns[path] for path in last_first))] == in_order:
            return _listed("grid", {path: columns[path] for path in last_first})
        return _listed("zip", self._swept)


def _listed(kind: str, values: Mapping[str, Sequence[str]]) -> str:
    lines = []
    for path, found in values.items():
        line = f"    {path}: [{', '.join(found)}]"
        is_long = len(line) > _WIDTH
        lines += [f"    {path}:", *(f"      - {one}" for one in found)] if is_long else [line]
    return "\n".join(["", f"  {kind}:", *lines])


def _shortest_argument_first(one: tuple[str, Sequence[yaml.Node]]) -> tuple[bool, int]:
    """Values that others may contain come first."""
    path, nodes = one
    return not path.startswith("args."), sum(len(_shown(node)) for node in nodes)


# ------------------------------------------------------------------ YAML


def _comparable(points: Sequence[Imported]) -> list[dict[str, yaml.Node]]:
    """The values of each point by their paths, which are the same: `args.lr`, or `args` as one
    value if only some have an argument."""
    for whole in ("", "args"):
        trees = [
            dict(_walk("", yaml.compose(one.text({}), yaml.SafeLoader), whole)) for one in points
        ]
        odd = {path for one in trees for path in {*one} ^ {*trees[0]}}
        if all([*one] == [*trees[0]] for one in trees):
            return trees
    raise _NoSweepError(f"only some have {', '.join(sorted(odd)) or 'this order of keys'}")


def _walk(path: str, node: Any, whole: str) -> Iterator[tuple[str, yaml.Node]]:
    """The values below a node, except those of `_SAME`. That of the key `whole` is not divided."""
    is_whole = bool(whole) and path == whole
    if is_whole or not isinstance(node, yaml.MappingNode):
        yield path, node
        return
    for key, value in node.value:
        name = str(key.value).replace(".", _DOT)
        if path or name not in _SAME:
            yield from _walk(f"{path}.{name}" if path else name, value, whole)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [value for _, value in node.value]
    return [*node.value] if isinstance(node, yaml.SequenceNode) else []


def _shown(node: yaml.Node) -> str:
    """A value on one line of YAML, as it was written."""
    if isinstance(node, yaml.ScalarNode):
        return str(node.value) if node.style is None else scalar(node.value)
    return _flow(node, [_shown(one) for one in _children(node)])


def _flow(node: yaml.Node, values: Sequence[str]) -> str:
    if isinstance(node, yaml.MappingNode):
        named = zip(node.value, values, strict=True)
        return f"{{{', '.join(f'{_shown(key)}: {one}' for (key, _), one in named)}}}"
    return f"[{', '.join(values)}]"
