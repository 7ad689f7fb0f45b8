"""A site's defaults.yaml: values below every spec, for all clusters, one cluster, or one queue."""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import InputError, Location, Problem, did_you_mean, in_order, one_problem
from clusterjobs.spec.expand_references import expanded_text
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.key_names import renamed_key, slurm_name
from clusterjobs.spec.keys.sweep import KEY as SWEEP
from clusterjobs.spec.layers import (
    Layer,
    Merged,
    Origin,
    Role,
    Setting,
    Source,
    apply_setting,
    lists_to_add_to,
    merge,
)
from clusterjobs.spec.model import OptionModels
from clusterjobs.spec.secrets import find_secrets
from clusterjobs.spec.validate import validate
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted, look_at

# ------------------------------------------------------------------ extends
# `extends: base.yaml` in a spec: the bases, each below the file that extends it.


KEY = "extends"
_MAX_BASES = 100
_HINT = "write extends: base.yaml, or a list, [team.yaml, model.yaml]"


class BaseFile(NamedTuple):
    """A file that a spec extends. `identity`: the same for the same file, however it is named."""

    file: str
    text: str
    identity: str


# Reads the base of that name, for the file that names it at that position. Raises InputError.
Reader = Callable[[str, str, Location], BaseFile]


def no_reader(name: str, _file: str, where: Location) -> BaseFile:
    """The reader of base files for a spec without a file, which can extend nothing."""
    raise one_problem(f"cannot read {name}: the spec has no folder", where, KEY)


def spec_layer(document: Document, role: Role) -> Layer:
    """The values of a spec or a base, without `extends`. Raises InputError if it is no mapping."""
    if not isinstance(document.value, dict):
        what = "the file is empty" if document.value is None else "expected a mapping"
        hint = "clusterjobs init writes a first spec"
        if role == "base":
            hint = "write the keys of a spec that several specs share"
        raise one_problem(what, document.locate(()), hint=hint)
    return Layer(role, document, {k: v for k, v in document.value.items() if k != KEY})


def load_bases(document: Document, identity: str, read: Reader) -> list[Layer]:
    """The bases of a spec, the lowest precedence first: each after its own bases.

    A base that several extend is merged once, where it is named first. Raises InputError.
    """
    found: dict[str, Layer] = {}
    _add_bases(document, {identity: document.file}, found, read)
    return list(found.values())


def _add_bases(
    document: Document, above: dict[str, str], found: dict[str, Layer], read: Reader
) -> None:
    for name, where in _names(document):
        base = read(name, document.file, where)
        if base.identity in above:
            chain = [*above.values(), base.file]
            what = f"{base.file} extends itself: {' -> '.join(chain)}"
            raise one_problem(what, where, KEY, "remove one of these `extends`")
        if base.identity in found:
            continue
        if len(found) + len(above) > _MAX_BASES:
            raise one_problem(f"more than {_MAX_BASES} bases", where, KEY, "combine some of them")
        own = yaml_document.load(base.text, base.file)
        layer = spec_layer(own, "base")
        _add_bases(own, {**above, base.identity: base.file}, found, read)
        found[base.identity] = layer


def _names(document: Document) -> Iterator[tuple[str, Location]]:
    """The bases that a file names, with their positions."""
    value: Any = document.value.get(KEY, [])
    is_list = isinstance(value, list)
    problems: list[Problem] = []
    for index, name in enumerate(value if is_list else [value]):
        where = document.locate((KEY, index) if is_list else (KEY,))
        if not isinstance(name, str) or not name:
            problems.append(Problem("expected the path of a file", where, KEY, _HINT))
        elif "{{" in name:
            hint = "write the file's name: bases are read before references are expanded"
            problems.append(Problem("a reference cannot be used here", where, KEY, hint))
        else:
            yield name, where
    if problems:
        raise InputError(problems)


_SECTIONS = ("all", "clusters")
_EXAMPLE = "write `key: value` lines below it"


class Defaults(NamedTuple):
    """One defaults.yaml, checked. Sections that are empty in the file are empty mappings."""

    document: Document

    def layers(self, cluster: str | None = None, queue: str | None = None) -> list[Layer]:
        """The layers that apply, the lowest precedence first; None leaves a layer out."""
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

    def unknown_queue(self, section: Path, known: Collection[str]) -> Iterator[Problem]:
        """A problem if a section selects a queue that is none of these; () is unknown."""
        path = (*section, "queue")
        queue = look_at(self.document.value, path)
        if known and isinstance(queue, str) and "{{" not in queue and queue not in known:
            what, where = f"no cluster has a queue {queue}", self.document.locate(path)
            if len(section) > 1:
                what = f"{section[1]} has no queue {queue}"
            yield Problem(what, where, dotted(path), did_you_mean(queue, sorted(known)))

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
            if key == KEY:
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
        own = look_at(self.document.value, path[:-1])
        if found := renamed_key((key,), own, section) or slurm_name((key,), section):
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


# ------------------------------------------------------------------ check defaults
# Checks the values of every section of a defaults.yaml, also of those that no spec uses yet.


def value_problems(defaults: Defaults, option_models: OptionModels) -> list[Problem]:
    """Problems of single values. Values with a reference can be checked only in a spec."""
    found: list[Problem] = []
    for layer in defaults.sections():
        problems: list[Problem] = []
        merged = merge([layer], lists_to_add_to(option_models), problems)
        validate(_without_references(merged.data), merged.source, option_models, problems)
        found += (one for one in problems if not _is_for_the_spec(one))
    return in_order(found)


def _without_references(value: Any) -> Any:
    """The value without keys whose type is known only when references are expanded."""
    if isinstance(value, list):
        return [_without_references(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_references(item)
        for key, item in value.items()
        if not isinstance(item, str) or "{{" not in item
    }


def _is_for_the_spec(problem: Problem) -> bool:
    """Whether a required key is missing, which the spec gives."""
    return problem.what.endswith(" is missing") and problem.what != "the value is missing"


# ------------------------------------------------------------------ selection
# Finds the layers that apply to a spec, and merges them.


class Queues(NamedTuple):
    """The queue that a spec selects on its cluster, None if that is open, and the known ones."""

    selected: str | None
    names: tuple[str, ...] = ()


# Finds the queue of a cluster, a spec's `queue` and its `gpus_per_node`.
ReadQueues = Callable[[str, str | None, int | None], Queues]


def no_queues(_cluster: str, queue: str | None, _gpus: int | None) -> Queues:
    """The finder of queues for a spec whose cluster is not read."""
    return Queues(queue)


class Layered(NamedTuple):
    """Layers, what they give together, and the problems of merging them."""

    layers: tuple[Layer, ...]
    merged: Merged
    problems: list[Problem]


_QUEUE_KEYS = ("queue", "gpus_per_node")  # which decide the queue


class Selection:
    """Finds the layers that apply. A default may set the cluster, and one of a cluster the queue.

    So the cluster is decided without the defaults of clusters, and the queue without those of
    queues.
    """

    def __init__(
        self,
        defaults: Sequence[Defaults],
        specs: Sequence[Layer],
        settings: Sequence[Setting],
        queues: ReadQueues,
        option_models: OptionModels,
    ) -> None:
        self._defaults, self._specs, self._read_queues = defaults, specs, queues
        self.settings, self._option_models = settings, option_models

    def with_settings(self, settings: Sequence[Setting]) -> Selection:
        """The defaults with more settings."""
        every = [*self.settings, *settings]
        return Selection(self._defaults, self._specs, every, self._read_queues, self._option_models)

    def depends_on(self, settings: Sequence[Setting], merged: Merged) -> bool:
        """Whether the settings may change which layers apply to what is merged without them."""
        changed = any(str(setting.path[0]) in _QUEUE_KEYS for setting in settings)
        refers = any("{{" in str(merged.data.get(key, "")) for key in _QUEUE_KEYS)
        return (changed or refers) and any(one.has_clusters for one in self._defaults)

    def layered(self) -> Layered:
        """The layers, the lowest precedence first, and what they give together."""
        problems: list[Problem] = []
        cluster = self._cluster() if any(one.has_clusters for one in self._defaults) else None
        queue = self._queue(cluster, problems) if cluster else None
        layers = self._layers(cluster, queue)
        return Layered(tuple(layers), self._merged(layers, problems), problems)

    def _layers(self, cluster: str | None, queue: str | None) -> list[Layer]:
        own = [layer for one in self._defaults for layer in one.layers(cluster, queue)]
        if not self._has_sweep():
            own = [
                one._replace(value={key: value for key, value in one.value.items() if key != SWEEP})
                for one in own
            ]
        return [*own, *self._specs]

    def _has_sweep(self) -> bool:
        """Whether the spec has one: `sweep: {max_running: 4}` of a site is for sweeps alone."""
        written = any(SWEEP in one.value for one in self._specs if isinstance(one.value, dict))
        return written or any(one.path[0] == SWEEP for one in self.settings)

    def _merged(self, layers: Sequence[Layer], problems: list[Problem]) -> Merged:
        written = [one.value.get("framework") for one in layers if isinstance(one.value, dict)]
        written += [one.value for one in self.settings if one.path == ("framework",)]
        framework = next((one for one in reversed(written) if one is not None), None)
        merged = merge(layers, lists_to_add_to(self._option_models, framework), problems)
        for setting in self.settings:
            merged = apply_setting(merged, setting, problems)
        return merged

    def _cluster(self) -> str | None:
        """The cluster's name; of a config that is named by its path, the file's."""
        written = expanded_text(self._merged(self._layers(None, None), []).data, "cluster")
        return pathlib.PurePath(written).stem if written else None

    def _queue(self, cluster: str, problems: list[Problem]) -> str | None:
        if not any(one.queues(cluster) for one in self._defaults):
            return None
        data = self._merged(self._layers(cluster, None), []).data
        written = expanded_text(data, "cluster") or ""
        gpus = 0 if data.get("gpus_per_node") == 0 else None
        queues = self._read_queues(written, expanded_text(data, "queue"), gpus)
        for one in self._defaults:
            problems += one.unknown_queues(cluster, queues.names)
        return queues.selected
