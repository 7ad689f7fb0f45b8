"""Finds the layers that apply to a spec, and merges them.

It knows the keys that select layers; it must not know the meaning of others, nor where texts are.
"""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import Problem
from clusterjobs.spec.defaults import Defaults
from clusterjobs.spec.expand_references import expanded_text
from clusterjobs.spec.layers import Layer, Merged, merge
from clusterjobs.spec.settings import Setting, apply_setting
from clusterjobs.spec.sweep_keys import KEY as SWEEP


class Queues(NamedTuple):
    """The queue that a spec selects on its cluster, None if that is open, and the known ones."""

    selected: str | None
    names: tuple[str, ...] = ()


# Finds the queue of a cluster, a spec's `queue` and its `gpus_per_node`.
ReadQueues = Callable[[str, str | None, int | None], Queues]


def no_queues(_cluster: str, queue: str | None, _gpus: int | None) -> Queues:
    """For a spec whose cluster is not read."""
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
    ) -> None:
        self._defaults, self._specs, self._read_queues = defaults, specs, queues
        self.settings = settings

    def with_settings(self, settings: Sequence[Setting]) -> Selection:
        """The same with more settings."""
        every = [*self.settings, *settings]
        return Selection(self._defaults, self._specs, every, self._read_queues)

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
            own = [one._replace(value=_without_sweep(one.value)) for one in own]
        return [*own, *self._specs]

    def _has_sweep(self) -> bool:
        """Whether the spec has one: `sweep: {max_running: 4}` of a site is for sweeps alone."""
        written = any(SWEEP in one.value for one in self._specs if isinstance(one.value, dict))
        return written or any(one.path[0] == SWEEP for one in self.settings)

    def _merged(self, layers: Sequence[Layer], problems: list[Problem]) -> Merged:
        merged = merge(layers, problems)
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


def _without_sweep(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if key != SWEEP}
