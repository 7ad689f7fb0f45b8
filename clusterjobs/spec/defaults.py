"""A site's defaults.yaml: values below every spec, for all clusters, one cluster, or one queue.

It knows the structure of the file and which keys a spec has; it must not know what they mean.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import InputError, Problem, did_you_mean
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.extends import KEY as EXTENDS
from clusterjobs.spec.layers import Layer, Origin, Source
from clusterjobs.spec.option_models import OptionModels
from clusterjobs.spec.secrets import find_secrets
from clusterjobs.spec.slurm_names import slurm_name
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted, look_at

_SECTIONS = ("all", "clusters")
_EXAMPLE = "write `key: value` lines below it"


class Defaults(NamedTuple):
    """One defaults.yaml, checked. Sections that are empty in the file are empty mappings."""

    document: Document

    def layers(self, cluster: str | None = None, queue: str | None = None) -> list[Layer]:
        """Those that apply, the lowest precedence first; a name of None leaves its layer out."""
        paths: list[Path] = [("all",)]
        if cluster is not None:
            paths.append(("clusters", cluster))
            if queue is not None:
                paths.append(("clusters", cluster, "queues", queue))
        return list(self._layers_at(paths))

    def sections(self) -> list[Layer]:
        """All sections that are not empty."""
        paths: list[Path] = [("all",)]
        for cluster in self.clusters():
            paths.append(("clusters", cluster))
            paths += [("clusters", cluster, "queues", queue) for queue in self.queues(cluster)]
        return list(self._layers_at(paths))

    def _layers_at(self, paths: Sequence[Path]) -> Iterator[Layer]:
        for path in paths:
            if found := _spec_keys(look_at(self.document.value, path) or {}):
                yield Layer("default", self.document, found, path)

    @property
    def has_clusters(self) -> bool:
        """Whether some defaults are for one cluster only."""
        return bool(look_at(self.document.value, ("clusters",)))

    def clusters(self) -> list[str]:
        """The clusters that have defaults of their own."""
        return list(look_at(self.document.value, ("clusters",)) or ())

    def queues(self, cluster: str) -> list[str]:
        """The queues of a cluster that have defaults of their own."""
        return list(look_at(self.document.value, ("clusters", cluster, "queues")) or ())

    def unknown_queues(self, cluster: str, known: Sequence[str]) -> Iterator[Problem]:
        """A problem for each queue that the cluster does not have; `known` is () if unreadable."""
        for queue in self.queues(cluster) if known else ():
            if queue not in known:
                path = ("clusters", cluster, "queues", queue)
                where, what = self.document.locate_key(path), f"{cluster} has no queue {queue}"
                yield Problem(what, where, dotted(path), did_you_mean(queue, known))


def _spec_keys(section: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in section.items() if key != "queues"}


def load_defaults(
    text: str, file: str, clusters: Sequence[str], option_models: OptionModels
) -> Defaults:
    """Read a defaults.yaml. `clusters` are the known names. Raises InputError with all problems."""
    document = yaml_document.load(text, file)
    if secrets := find_secrets(document.value, document):
        raise InputError(secrets)  # alone, because other problems would print the lines
    if problems := list(_Checks(document, clusters, option_models).problems()):
        raise InputError(problems)
    return Defaults(document)


class _Checks:
    """Finds the problems of a file's structure; single values are checked in the merged spec."""

    def __init__(
        self, document: Document, clusters: Sequence[str], option_models: OptionModels
    ) -> None:
        self.document, self.clusters = document, clusters
        self._option_models = option_models

    def problems(self) -> Iterator[Problem]:
        value = self.document.value
        yield from self._no_mapping(())
        for key in value if isinstance(value, dict) else ():
            if key not in _SECTIONS:
                yield self._unknown_section(key)
        yield from self._section(("all",), ())
        yield from self._no_mapping(("clusters",))
        for name in self._keys(("clusters",)):
            yield from self._cluster(name)

    def _cluster(self, name: str) -> Iterator[Problem]:
        path: Path = ("clusters", name)
        if name not in self.clusters:
            yield self._at_key(path, f"no cluster {name!r}", did_you_mean(name, self.clusters))
        yield from self._section(path, ("cluster",))
        yield from self._no_mapping((*path, "queues"))
        for queue in self._keys((*path, "queues")):
            yield from self._section((*path, "queues", queue), ("cluster", "queue"))

    def _section(self, path: Path, fixed: Sequence[str]) -> Iterator[Problem]:
        """`fixed`: the keys that decide whether the section applies."""
        yield from self._no_mapping(path)
        for key in self._keys(path):
            inner = (*path, key)
            if key == EXTENDS:
                hint = "write the values here, or `extends` in the specs"
                yield self._at_key(inner, "defaults cannot extend a file", hint)
            elif key in fixed:
                where = "all" if key == "cluster" else f"clusters: {{{path[1]}: ...}}"
                what = f"these defaults apply to one {key} only, so they cannot set it"
                yield self._at_key(inner, what, f"remove it, or write it under {where}")
            elif not (key == "queues" and len(path) == 2) and not self._is_key(key):
                yield self._unknown_key(inner)

    def _is_key(self, key: str) -> bool:
        """Whether a spec can have this key; frameworks are imported only if it is none of all."""
        return key in Experiment.model_fields or any(
            key == other for other, _ in self._option_models.all_keys()
        )

    def _unknown_key(self, path: Path) -> Problem:
        key = str(path[-1])
        section = Source(Origin(Layer("default", self.document, {}), path[:-1]))
        if found := slurm_name((key,), section):
            return found._replace(path=dotted(path))
        return self._at_key(path, f"unknown key {key}", did_you_mean(key, self._all_keys))

    @functools.cached_property
    def _all_keys(self) -> list[str]:
        return [*Experiment.model_fields, *(key for key, _ in self._option_models.all_keys())]

    def _unknown_section(self, key: str) -> Problem:
        if self._is_key(key):
            return self._at_key((key,), f"{key} is in no section", f"write all: {{{key}: ...}}")
        return self._at_key((key,), f"unknown key {key}", did_you_mean(key, _SECTIONS))

    def _no_mapping(self, path: Path) -> Iterator[Problem]:
        value = look_at(self.document.value, path)
        if value is not None and not isinstance(value, dict):
            where = self.document.locate(path)
            yield Problem("expected a mapping", where, dotted(path), _EXAMPLE)

    def _keys(self, path: Path) -> list[str]:
        value = look_at(self.document.value, path)
        return list(value) if isinstance(value, dict) else []

    def _at_key(self, path: Path, what: str, hint: str) -> Problem:
        return Problem(what, self.document.locate_key(path), dotted(path), hint)
