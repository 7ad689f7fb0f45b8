"""The graph of specs that `needs:` makes: their order, and its problems.

Pure: the caller reads the files. Jobs that were submitted play no part.
"""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from clusterjobs.errors import Location, Problem, counted
from clusterjobs.spec.keys.needs import Need
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.spec.need_references import KEY
from clusterjobs.yaml.document import dotted


class SpecNeed(NamedTuple):
    """A need of a spec: the identity of the spec that it names, None for the id of a job."""

    need: Need
    target: str | None
    where: Location


class NeedingSpec(NamedTuple):
    """A spec of a pipeline. `points`: those of its sweep, or the one spec if it has none."""

    file: str
    identity: str
    points: tuple[LoadedSpec, ...]
    needs: tuple[SpecNeed, ...]

    @property
    def loaded(self) -> LoadedSpec:
        """The spec without a sweep, else its first point."""
        return self.points[0]

    @property
    def is_sweep(self) -> bool:
        return self.loaded.spec.sweep is not None

    @property
    def is_packed(self) -> bool:
        """Whether several points share a job."""
        sweep = self.loaded.spec.sweep
        return bool(sweep and sweep.per_node and sweep.per_node > 1)


class NeedGraph(NamedTuple):
    """A spec, the `root`, with all that it needs, directly or not: by their identities."""

    root: str
    specs: Mapping[str, NeedingSpec]

    def in_order(self) -> tuple[NeedingSpec, ...]:
        """The specs, each after all that it needs, else in the order of the files."""
        found: dict[str, NeedingSpec] = {}
        self._add(self.root, found)
        return tuple(found.values())

    def _add(self, identity: str, found: dict[str, NeedingSpec]) -> None:
        for one in self.specs[identity].needs:
            if one.target is not None and one.target not in found:
                self._add(one.target, found)
        found[identity] = self.specs[identity]


def need_problems(graph: NeedGraph) -> Iterator[Problem]:
    """The problems of the needs in a graph whose files could all be read."""
    for one in graph.in_order():
        yield from _repeated(one)
        yield from _own_dependency(one)
        for index, need in enumerate(one.needs):
            if need.target is not None:
                yield from _unfit(one, graph.specs[need.target], need, index)


def _repeated(one: NeedingSpec) -> Iterator[Problem]:
    """Problems: a job that is needed twice, or two specs with the same name in references."""
    targets: dict[str, int] = {}
    names: dict[str, int] = {}
    for index, found in enumerate(one.needs):
        job = found.target or f"job {found.need.job}"
        first = targets.setdefault(job, index)
        if first != index:
            what = f"{found.need.spec or job} is already needed by {_path(first)}"
            yield Problem(what, found.where, _path(index), "remove one of them")
        elif found.target and (same := names.setdefault(found.need.name, index)) != index:
            name = found.need.name
            what = f"{_path(same)} already has the name {name}"
            hint = f"give one of them another name: {{spec: {found.need.spec}, as: {name}-2}}"
            yield Problem(what, found.where, _path(index), hint)


def _own_dependency(one: NeedingSpec) -> Iterator[Problem]:
    for name in ("dependency", "d"):
        if one.needs and one.loaded.spec.sbatch.get(name):
            where = one.loaded.source.locate_key(("sbatch", name))
            what = "needs already sets the dependency of the job"
            yield Problem(what, where, f"sbatch.{name}", f"write it as {KEY}: [{{job: 4711}}]")


def _unfit(one: NeedingSpec, other: NeedingSpec, found: SpecNeed, index: int) -> Iterator[Problem]:
    cluster, its = (spec.loaded.spec.cluster for spec in (one, other))
    if _cluster_name(cluster) != _cluster_name(its):
        what = f"{other.file} runs on the cluster {its}, and {one.file} on {cluster}"
        hint = "a job can only wait for jobs of its own cluster"
        yield Problem(what, found.where, _path(index), hint)
    if other.loaded.spec.sbatch.get("array"):
        what = (
            f"{other.file} is a plain job array, which does not record whether its tasks completed"
        )
        hint = "make it a sweep: sweep: {grid: {...}}; its points are recorded"
        yield Problem(what, found.where, _path(index), hint)
    if found.need.on == "each" and (what := _unlike_points(one, other)):
        hint = "give both the same sweep, or write on: success to wait for all points"
        yield Problem(what, found.where, _path(index), hint)


def _cluster_name(written: str) -> str:
    """Paths are relative to the specs, which may be in several folders."""
    return written.rpartition("/")[2].removesuffix(".yaml")


def _unlike_points(one: NeedingSpec, other: NeedingSpec) -> str:
    """Why the points of two specs do not correspond; "" if they do."""
    for spec in (one, other):
        if not spec.is_sweep:
            return f"on: each works only between two sweeps, and {spec.file} has no sweep"
    if one.is_packed:
        return f"on: each cannot be used with per_node: {one.file} packs several"
    own, its = (tuple(map(_point_name, spec.points)) for spec in (one, other))
    if len(own) != len(its):
        numbers = f"{counted(len(own), 'point')} and {other.file} has {len(its)}"
        return f"on: each needs the same points in both specs, but {one.file} has {numbers}"
    for name, its_name in zip(own, its, strict=True):
        if name != its_name:
            return (
                f"on: each needs the same points in both specs, but {name} of {one.file} "
                f"would wait for {its_name} of {other.file}"
            )
    return ""


def _point_name(loaded: LoadedSpec) -> str:
    return loaded.point.name if loaded.point else ""


def _path(index: int) -> str:
    return dotted((KEY, index))
