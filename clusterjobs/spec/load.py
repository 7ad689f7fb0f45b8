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
from clusterjobs.spec.need_references import NeedReader, no_needs
from clusterjobs.spec.remaining import remaining_experiment
from clusterjobs.spec.secrets import find_secrets
from clusterjobs.spec.settings import apply_setting, read_setting
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
    spec's own file there. `read_need` reads the values of a spec that is needed.
    """

    defaults: Sequence[tuple[str, str]] = ()
    clusters: Callable[[], Sequence[str]] = tuple
    queues: Callable[[str, str | None, int | None], Queues] = _no_queues
    read_base: Reader = no_reader
    identity: str = ""
    read_need: NeedReader = no_needs


class Spec(NamedTuple):
    """A loaded spec: the experiment, its framework's options, and the origin of each value.

    `layers` are what was merged, without `--set`; `merged` is before references were expanded, and
    `expanded` after it.
    """

    experiment: Experiment
    options: SpecModel | None
    source: Source
    merged: Merged
    layers: tuple[Layer, ...] = ()
    expanded: Mapping[str, Any] = {}

    def files(self, role: str) -> tuple[tuple[str, str], ...]:
        """(file, text) of the files with that role in the spec, each once."""
        found = [one.text for one in self.layers if one.role == role]
        texts = {one.file: one.text for one in found if isinstance(one, Document)}
        return tuple(texts.items())


class BrokenSpecError(InputError):
    """Values are wrong. `rest` is the spec without them; None if it is no spec without them."""

    def __init__(self, problems: Iterable[Problem], rest: Spec | None) -> None:
        super().__init__(problems)
        self.rest = rest


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
    below = below or Below()
    document = yaml_document.load(text, file)
    own = spec_layer(document, "spec")
    specs = [*load_bases(document, below.identity, below.read_base), own]
    for layer in specs[:-1]:
        if secrets := find_secrets(layer.value, layer.text):
            raise InputError(secrets)  # alone, because other problems would print the lines
    names = below.clusters() if below.defaults else ()
    defaults = [load_defaults(text, file, names, option_models) for file, text in below.defaults]
    problems: list[Problem] = []
    layers, merged = _Selection(defaults[::-1], specs, settings, below).merged(problems)
    data, source = merged.data, merged.source
    if secrets := find_secrets(data, source):
        raise InputError(secrets)
    data = expand_references(data, source, problems, below.read_need)
    experiment, options = validate(data, source, option_models, problems)
    if problems or experiment is None:
        remaining = remaining_experiment(data, problems, source, option_models)
        rest = remaining and Spec(*remaining, source, merged, layers, data)
        raise BrokenSpecError(in_order(problems), rest)
    return Spec(experiment, options, source, merged, layers, data)


class _Selection:
    """Finds the layers that apply. A default may set the cluster, and one of a cluster the queue.

    So the cluster is decided without the defaults of clusters, and the queue without those of
    queues.
    """

    def __init__(
        self,
        defaults: Sequence[Defaults],
        specs: Sequence[Layer],
        settings: Sequence[str],
        below: Below,
    ) -> None:
        self._defaults, self._specs, self._below = defaults, specs, below
        self._settings = [read_setting(item, number) for number, item in enumerate(settings, 1)]

    def merged(self, problems: list[Problem]) -> tuple[tuple[Layer, ...], Merged]:
        """The layers, the lowest precedence first, and what they give together."""
        cluster = self._cluster() if any(one.has_clusters for one in self._defaults) else None
        queue = self._queue(cluster, problems) if cluster else None
        layers = self._layers(cluster, queue)
        return tuple(layers), self._merged(layers, problems)

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
