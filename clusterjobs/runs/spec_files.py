"""Reads a spec with everything below it: defaults, the files that it extends, its cluster."""

from __future__ import annotations

import contextlib
import functools
import os
import pathlib
import stat
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterjobs.clusters.source import ClusterSource, cluster_names, find_cluster, is_path
from clusterjobs.errors import InputError, Location, one_problem
from clusterjobs.frameworks import option_models
from clusterjobs.launchers import LAUNCHERS
from clusterjobs.runs.clusters import cluster_source, refuse_other_files
from clusterjobs.sections.placement.nodes import default_queue
from clusterjobs.sites.folders import (
    STDIN,
    SiteFolders,
    find_site_folders,
    load_site,
    read_sites,
    read_text,
    shown_name,
    shown_path,
    site_files,
)
from clusterjobs.spec.defaults import KEY, BaseFile, Queues
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import Below, LoadedSpec, load_points, load_spec
from clusterjobs.spec.model import known_keys
from clusterjobs.spec.need_references import NeededValues, Step, check_circle
from clusterjobs.yaml import document as yaml_document

_MAX_NEEDED, _MAX_DEPTH = 100, 20  # each level takes about 20 calls of functions


class ClusterInput(NamedTuple):
    """The cluster of a spec, with the files that describe it as (path, text)."""

    source: ClusterSource
    config: tuple[str, str]
    sites: tuple[tuple[str, str], ...]


class SpecFiles:
    """A spec's text and the files around it, each read once."""

    def __init__(
        self,
        spec: pathlib.Path,
        site: SiteFolders | None = None,
        needed: NeededFiles | None = None,
    ) -> None:
        """`site`: the site folders to use instead of those that are found. `needed`: the specs that
        were read because others need them.

        Raises InputError if the spec cannot be read, or is a ParallelCluster config.
        """
        self.spec = spec
        self.text = read_text(spec)
        refuse_other_files(self.text, shown_name(spec))
        self.site = site if site is not None else find_site_folders()
        self.identity = os.path.realpath(spec)
        self._needed = needed or NeededFiles()
        self._clusters: dict[str, ClusterInput] = {}

    def load(self, settings: Sequence[str] = ()) -> LoadedSpec:
        """The spec merged with what is below it; the first point of a sweep. Raises InputError."""
        below = self._below()
        return load_spec(self.text, shown_name(self.spec), option_models(), settings, below)

    def load_points(self, settings: Sequence[str] = ()) -> tuple[LoadedSpec, ...]:
        """Load each point of a sweep. Raises InputError with the problems of all points."""
        below = self._below()
        return load_points(self.text, shown_name(self.spec), option_models(), settings, below)

    def _below(self) -> Below:
        return Below(
            defaults=self.site.defaults,
            clusters=lambda: cluster_names(self.site.cluster_files),
            queues=self._queues,
            read_base=_read_base,
            identity=self.identity,
            read_need=self._values_of_need,
        )

    def cluster(self, name: str, where: Location | None = None) -> ClusterInput:
        """The cluster of that name or path. Raises InputError, at `where` if it is not found."""
        if name not in self._clusters:
            file = find_cluster(name, self.spec.parent, where, self.site.cluster_files)
            text, searched = read_text(file), site_files(self.spec, self.site)
            sites, names = read_sites(searched), tuple(map(str, searched))
            source = cluster_source(text, shown_path(file), load_site(sites), names, is_path(name))
            self._clusters[name] = ClusterInput(source, (str(file), text), sites)
        return self._clusters[name]

    @contextlib.contextmanager
    def needed(self, written: str, where: Location) -> Iterator[SpecFiles]:
        """The files of a spec that this one needs at `where`, while they are read.

        Raises InputError if it cannot be read, and CircleError if it needs this spec.
        """
        path = _path_from(shown_name(self.spec), written)
        identity = os.path.realpath(path)
        way = [*self._needed.way, Step(self.identity, shown_name(self.spec), written, where)]
        check_circle(way, identity)
        if identity not in self._needed.files:
            if len(self._needed.files) >= _MAX_NEEDED or len(way) > _MAX_DEPTH:
                raise one_problem(
                    f"more than {_MAX_NEEDED} specs are needed, "
                    f"or a chain of more than {_MAX_DEPTH}",
                    hint="combine some of them",
                )
            _refuse_pipe(path)
            self._needed.files[identity] = SpecFiles(path, self.site, self._needed)
        self._needed.way, before = way, self._needed.way
        try:
            yield self._needed.files[identity]
        finally:
            self._needed.way = before

    @functools.cached_property
    def points(self) -> tuple[LoadedSpec, ...]:
        """The points without settings, or the one spec, read once. Raises InputError."""
        return self.load_points()

    def _values_of_need(self, written: str, where: Location) -> NeededValues:
        with self.needed(written, where) as other:
            return other._values

    @functools.cached_property
    def _values(self) -> NeededValues:
        return NeededValues(shown_name(self.spec), [one.expanded for one in self.points])

    def _queues(self, cluster: str, queue: str | None, gpus: int | None) -> Queues:
        with contextlib.suppress(InputError):  # reported when the plan is made
            facts = self.cluster(cluster).source.facts
            names = tuple(one.name for one in facts.partitions if one.name)
            return Queues(queue or default_queue(facts, gpus), names)
        return Queues(queue)


class NeededFiles:
    """The specs that others need, by their identities, and the way to the one that is read now."""

    def __init__(self) -> None:
        self.files: dict[str, SpecFiles] = {}
        self.way: list[Step] = []


def _path_from(file: str, name: str) -> pathlib.Path:
    """The file `name`, relative to the folder of the file that names it."""
    folder = pathlib.Path() if file == shown_name(STDIN) else pathlib.Path(file).parent
    return pathlib.Path(os.path.normpath(folder / name))


def _read_base(name: str, file: str, where: Location) -> BaseFile:
    """The file `name`, relative to the folder of the file that extends it."""
    path = _path_from(file, name)
    try:
        _refuse_pipe(path)
        text = read_text(path)
        refuse_other_files(text, str(path))
        _refuse_strange_files(text, path)
    except InputError as error:
        problem = error.problems[0]
        if problem.where and problem.where.source:
            raise  # a mistake in the file itself
        what = problem.what if str(path) in problem.what else f"{path}: {problem.what}"
        raise one_problem(what, where, KEY, problem.hint) from None
    return BaseFile(str(path), text, os.path.realpath(path))


def _refuse_strange_files(text: str, path: pathlib.Path) -> None:
    """Refuse what is no part of a spec, and show none of its lines: it may be a private file.

    `impact` and services read the specs of others, which may name any file.
    """
    try:
        data = yaml_document.load(text, str(path)).value
    except InputError as error:
        where = error.problems[0].where
        line = f"{path}:{where.line}:{where.column}" if where else str(path)
        hint = "check quotes, brackets and indentation there; the line is not shown"
        raise one_problem(f"not YAML: {line}", hint=hint) from None
    if not isinstance(data, dict) or not any(map(_is_key, data)):
        raise one_problem(f"{path} has no key of a spec", hint="name a file with keys of a spec")


def _is_key(name: object) -> bool:
    """Whether a spec, a framework or a launcher has such a key."""
    if name == KEY or name in LAUNCHERS:
        return True
    of_plugins = (model for model in option_models().frameworks.values() if model)
    return any(name in known_keys(model) for model in (Experiment, *of_plugins))


def _refuse_pipe(path: pathlib.Path) -> None:
    if _blocks(path):
        raise one_problem(f"{path} is a pipe or a device, and not a file", hint="name a file")


def _blocks(path: pathlib.Path) -> bool:
    """Whether reading it may wait for ever: `impact` reads the specs of others."""
    with contextlib.suppress(OSError, ValueError):  # reported by who reads it
        mode = path.stat().st_mode
        return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
    return False
