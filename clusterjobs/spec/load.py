"""From a spec's text and the texts below it to an Experiment.

The steps: the layers (defaults, bases, the spec, `--set`) are merged, then references expanded,
then the models validate. Positions are kept, so that later problems can be shown where they are. It
must not know the meaning of any key, except of those that select the layers.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.spec.defaults import Defaults, load_defaults
from clusterjobs.spec.expand_references import expand_references, expanded_text
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.extends import Reader, load_bases, no_reader, spec_layer
from clusterjobs.spec.layers import Layer, Merged, Source, merge
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.point_folders import with_own_folders
from clusterjobs.spec.point_problems import Found, of_points
from clusterjobs.spec.points import Point
from clusterjobs.spec.remaining import remaining_experiment
from clusterjobs.spec.secrets import find_secrets
from clusterjobs.spec.settings import Setting, apply_setting, read_setting
from clusterjobs.spec.sweep import KEY, read_sweep
from clusterjobs.spec.sweep_keys import Sweep
from clusterjobs.spec.validate import OptionModels, validate
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document


class Queues(NamedTuple):
    """The queue that a spec selects on its cluster, None if that is open, and the known ones."""

    selected: str | None
    names: tuple[str, ...] = ()


def _no_queues(_cluster: str, queue: str | None, _gpus: int | None) -> Queues:
    return Queues(queue)


class Below(NamedTuple):
    """What a spec builds on. `defaults`: (file, text), the highest precedence first.

    `clusters`: the names that defaults may use; `queues` finds the queue of a cluster, a spec's
    `queue` and its `gpus_per_node`. `read_base` reads what a spec extends, and `identity` is the
    spec's own file there.
    """

    defaults: Sequence[tuple[str, str]] = ()
    clusters: Callable[[], Sequence[str]] = tuple
    queues: Callable[[str, str | None, int | None], Queues] = _no_queues
    read_base: Reader = no_reader
    identity: str = ""


class Spec(NamedTuple):
    """A loaded spec: the experiment, its framework's options, and the origin of each value.

    `layers` are what was merged, without `--set`; `merged` is before references were expanded, and
    `expanded` after it. `point` is None without a sweep. `notes` have to be shown with the plan's
    warnings.
    """

    experiment: Experiment
    options: SpecModel | None
    source: Source
    merged: Merged
    layers: tuple[Layer, ...] = ()
    point: Point | None = None
    notes: tuple[Problem, ...] = ()
    expanded: Mapping[str, Any] = {}

    def files(self, role: str) -> tuple[tuple[str, str], ...]:
        """(file, text) of the files with that role in the spec, each once."""
        found = [one.text for one in self.layers if one.role == role]
        texts = {one.file: one.text for one in found if isinstance(one, Document)}
        return tuple(texts.items())


class BrokenSpecError(InputError):
    """Values are wrong. `rest` is the spec without them; None if it is no spec without them.

    `points`: those of a sweep that have no problem.
    """

    def __init__(
        self, problems: Iterable[Problem], rest: Spec | None, points: Iterable[Spec] = ()
    ) -> None:
        super().__init__(problems)
        self.rest, self.points = rest, tuple(points)


def load_spec(
    text: str,
    file: str,
    option_models: OptionModels,
    settings: Sequence[str] = (),
    below: Below | None = None,
) -> Spec:
    """Read a spec. `option_models` has the keys of each framework; `settings` are `--set` items.

    Raises InputError for the YAML and the layers, and BrokenSpecError with all problems of the
    references and the single values.
    """
    read = _read(text, file, option_models, settings, below or Below())
    return read.points(first_only=True)[0] if KEY in read.merged.data else read.plain()


def load_points(
    text: str,
    file: str,
    option_models: OptionModels,
    settings: Sequence[str] = (),
    below: Below | None = None,
) -> tuple[Spec, ...]:
    """The points of a spec, each a spec of its own; the one spec if it has no sweep.

    Raises as `load_spec`, with the problems of all points.
    """
    read = _read(text, file, option_models, settings, below or Below())
    return read.points() if KEY in read.merged.data else (read.plain(),)


def _read(
    text: str, file: str, option_models: OptionModels, settings: Sequence[str], below: Below
) -> _Read:
    """The texts merged. Raises InputError."""
    document = yaml_document.load(text, file)
    own = spec_layer(document, "spec")
    specs = [*load_bases(document, below.identity, below.read_base), own]
    for layer in specs[:-1]:
        if secrets := find_secrets(layer.value, layer.text):
            raise InputError(secrets)  # alone, because other problems would print the lines
    names = below.clusters() if below.defaults else ()
    defaults = [load_defaults(text, file, names, option_models) for file, text in below.defaults]
    items = [read_setting(item, number) for number, item in enumerate(settings, 1)]
    selection = _Selection(defaults[::-1], specs, items, below)
    found = selection.layered()
    if secrets := find_secrets(found.merged.data, found.merged.source):
        raise InputError(secrets)
    return _Read(selection, found, option_models)


class _Layered(NamedTuple):
    """Layers, what they give together, and the problems of merging them."""

    layers: tuple[Layer, ...]
    merged: Merged
    problems: list[Problem]


class _Read:
    """A spec that is read and merged, and not yet validated."""

    def __init__(self, selection: _Selection, found: _Layered, option_models: OptionModels) -> None:
        self._selection, self._found, self._option_models = selection, found, option_models
        self.merged = found.merged

    def plain(self) -> Spec:
        """The spec without a sweep."""
        return self._validated(self._found, self._found.merged.data)

    def _validated(self, found: _Layered, data: dict[str, Any], sweep: Sweep | None = None) -> Spec:
        """The spec of data whose references are not expanded. Raises BrokenSpecError."""
        source, problems = found.merged.source, found.problems
        data = expand_references(data, source, problems)
        wanted = {**data, KEY: sweep} if sweep else data
        experiment, options = validate(wanted, source, self._option_models, problems)
        if problems or experiment is None:
            remaining = remaining_experiment(wanted, problems, source, self._option_models)
            rest = remaining and Spec(*remaining, source, found.merged, found.layers)
            raise BrokenSpecError(in_order(problems), rest)
        return Spec(experiment, options, source, found.merged, found.layers, expanded=data)

    def points(self, first_only: bool = False) -> tuple[Spec, ...]:
        """The spec of each point, or only of the first. Raises BrokenSpecError."""
        swept = read_sweep(self.merged, self._option_models)
        points = swept.points[:1] if first_only else swept.points
        specs: list[Spec] = []
        wrong: list[Found] = []
        rest = None
        for point, settings in points:
            try:
                specs.append(self._point(swept.sweep, point, settings))
            except InputError as error:
                wrong.append(Found(point.name, error.problems))
                rest = rest or getattr(error, "rest", None)
        if wrong:
            raise BrokenSpecError(of_points(wrong, len(points)), rest, specs)
        return tuple(specs)

    def _point(self, sweep: Sweep, point: Point, settings: Sequence[Setting]) -> Spec:
        found = self._with(settings)
        notes: list[Problem] = []
        data = {**found.merged.data, KEY: {"name": sweep.name}}
        data = with_own_folders(data, found.merged.source, notes)
        loaded = self._validated(found, data, sweep)
        return loaded._replace(point=point, notes=tuple(notes))

    def _with(self, settings: Sequence[Setting]) -> _Layered:
        """The layers with a point's settings, which may decide whose defaults apply."""
        if self._selection.depends_on(settings):
            return self._selection.with_settings(settings).layered()
        problems, merged = [*self._found.problems], self.merged
        for setting in settings:
            merged = apply_setting(merged, setting, problems)
        return _Layered(self._found.layers, merged, problems)


_QUEUE_KEYS = ("queue", "gpus_per_node")  # which decide the queue


class _Selection:
    """Finds the layers that apply. A default may set the cluster, and one of a cluster the queue.

    So the cluster is decided without the defaults of clusters, and the queue without those of
    queues.
    """

    def __init__(
        self,
        defaults: Sequence[Defaults],
        specs: Sequence[Layer],
        settings: Sequence[Setting],
        below: Below,
    ) -> None:
        self._defaults, self._specs, self._below = defaults, specs, below
        self._settings = settings

    def with_settings(self, settings: Sequence[Setting]) -> _Selection:
        """The same with more settings."""
        every = [*self._settings, *settings]
        return _Selection(self._defaults, self._specs, every, self._below)

    def depends_on(self, settings: Sequence[Setting]) -> bool:
        """Whether the settings may change which layers apply."""
        changed = any(str(setting.path[0]) in _QUEUE_KEYS for setting in settings)
        return changed and any(one.has_clusters for one in self._defaults)

    def layered(self) -> _Layered:
        """The layers, the lowest precedence first, and what they give together."""
        problems: list[Problem] = []
        cluster = self._cluster() if any(one.has_clusters for one in self._defaults) else None
        queue = self._queue(cluster, problems) if cluster else None
        layers = self._layers(cluster, queue)
        return _Layered(tuple(layers), self._merged(layers, problems), problems)

    def _layers(self, cluster: str | None, queue: str | None) -> list[Layer]:
        own = [layer for one in self._defaults for layer in one.layers(cluster, queue)]
        return [*own, *self._specs]

    def _merged(self, layers: Sequence[Layer], problems: list[Problem]) -> Merged:
        merged = merge(layers, problems)
        for setting in self._settings:
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
        queues = self._below.queues(written, expanded_text(data, "queue"), gpus)
        for one in self._defaults:
            problems += one.unknown_queues(cluster, queues.names)
        return queues.selected
