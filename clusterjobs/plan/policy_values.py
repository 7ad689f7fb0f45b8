"""The values of a job that a site's rules are compared with, and their paths in the spec.

It knows the spec and, if the job could be planned, its plan. It must not know any rule.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from clusterjobs.plan.plan import Plan
from clusterjobs.slurm_time import seconds_of
from clusterjobs.spec.load import Spec
from clusterjobs.spec.references import as_text, show
from clusterjobs.yaml.document import Path


class User(NamedTuple):
    """Who submits, and the names of the Unix groups that this user belongs to."""

    name: str
    groups: frozenset[str] = frozenset()


class Usage(NamedTuple):
    """What the job uses. `gpus_per_node` and `seconds` are None if unknown or without a limit."""

    nodes: int
    gpus_per_node: int | None
    time_limit: str | None

    @property
    def gpus(self) -> int | None:
        """Those of all nodes."""
        return None if self.gpus_per_node is None else self.nodes * self.gpus_per_node

    @property
    def seconds(self) -> int | None:
        return None if self.time_limit is None else seconds_of(self.time_limit)


@dataclass(frozen=True)
class JobValues:
    """One job. `plan` is None if it could not be planned; `cluster` is the cluster's name.

    `default_queue`: Slurm's, of jobs that name none; "" if unknown.
    """

    spec: Spec
    plan: Plan | None
    cluster: str
    user: User
    default_queue: str = ""

    @property
    def queues(self) -> tuple[str, ...]:
        """The planned one, and Slurm's default if the script names none; empty if unknown."""
        if self.plan is None:
            planned = self.spec.experiment.queue
            is_named = self.spec.experiment.sbatch.get("partition") is not False
        else:
            planned = self.plan.placement.partition
            is_named = any(one.name == "partition" for one in self.plan.job.directives)
        found = (planned, None if is_named else self.default_queue)
        return tuple(dict.fromkeys(filter(None, found))) if planned else ()

    @functools.cached_property
    def usage(self) -> Usage:
        """Nodes, GPUs and time."""
        wanted = self.spec.experiment
        if self.plan is None:
            return Usage(wanted.nodes, wanted.gpus_per_node, wanted.time_limit)
        placement = self.plan.placement
        gpus = placement.per_node * placement.shape.gpus_per_node
        return Usage(placement.all_nodes, gpus, self.plan.job.time_limit)

    def is_written(self, key: str) -> bool:
        """Whether the spec, or a default, gives the key a value; `false` leaves an option out."""
        return any(_is_value(value) for _, value in _find(self._written, key.split("."), ()))

    def missing(self, key: str) -> Iterator[Path]:
        """The paths at which the key is not written: one for each item of a list without it."""
        return _missing(self._written, self._effective, key.split("."), ())

    def values(self, key: str) -> Iterator[tuple[Path, str]]:
        """Each value of the key as text: items of a list, names in a mapping, derived values."""
        for path, value in _find(self._effective, key.split("."), ()):
            yield from _texts(value, path)
            if key == "queue":
                yield from ((path, show(one)) for one in self.queues[1:])

    def reason(self, path: Path) -> str:
        """Why the job has the value, if it is derived; "" if it is written."""
        name = str(path[0])
        if self.plan is None or name in self._written:
            return ""
        return next((one.reason for one in self.plan.derived if one.name == name), "")

    @functools.cached_property
    def _written(self) -> dict[str, Any]:
        """What the spec says, without built-in defaults."""
        return self._dumped(exclude_unset=True)

    @functools.cached_property
    def _effective(self) -> dict[str, Any]:
        """What the job has: built-in defaults and derived values where nothing is written."""
        values = {**self._dumped(exclude_unset=False), "cluster": self.cluster}
        values["sbatch"] = {k: v for k, v in values["sbatch"].items() if v is not False}
        if self.plan:
            placement = self.plan.placement
            values |= {
                "queue": placement.partition,
                "instance_type": placement.node_type.name,
                "gpus_per_node": placement.shape.gpus_per_node,
                "ranks_per_node": placement.shape.ranks_per_node,
                "launcher": self.plan.launch.launcher.name,
            }
            if self.plan.container:
                values["software"]["container"]["runtime"] = self.plan.container.runtime
        return values

    def _dumped(self, exclude_unset: bool) -> dict[str, Any]:
        models = filter(None, (self.spec.experiment, self.spec.options))
        found: dict[str, Any] = {}
        for model in models:
            found |= model.model_dump(by_alias=True, exclude_unset=exclude_unset)
        for launcher, model in self.spec.launcher_options.items():
            found[launcher] = model.model_dump(by_alias=True, exclude_unset=exclude_unset)
        return found


def _is_value(value: Any) -> bool:
    """Whether a key has a value; False, None and an empty list are none."""
    return value is not None and value is not False and value != ()


def _find(data: Any, steps: list[str], path: Path) -> Iterator[tuple[Path, Any]]:
    """The values at `steps`, in each item of a list, with their paths."""
    if not steps:
        yield path, data
    elif isinstance(data, (list, tuple)):
        for index, item in enumerate(data):
            yield from _find(item, steps, (*path, index))
    elif isinstance(data, Mapping) and steps[0] in data:
        yield from _find(data[steps[0]], steps[1:], (*path, steps[0]))


def _missing(data: Any, effective: Any, steps: list[str], path: Path) -> Iterator[Path]:
    """`effective`: the same with the defaults, which show an empty list that has no items."""
    if not steps:
        if not _is_value(data):
            yield path
    elif isinstance(data, (list, tuple)):
        for index, item in enumerate(data):
            yield from _missing(item, effective[index], steps, (*path, index))
    elif isinstance(data, Mapping) and steps[0] in data:
        step = steps[0]
        yield from _missing(data[step], effective.get(step), steps[1:], (*path, step))
    elif not (len(steps) > 1 and _is_empty_list(effective, steps[0])):
        yield (*path, *steps)


def _is_empty_list(effective: Any, step: str) -> bool:
    return isinstance(effective, Mapping) and effective.get(step) == ()


def _texts(value: Any, path: Path) -> Iterator[tuple[Path, str]]:
    if isinstance(value, Mapping):
        for name in value:
            yield (*path, name), show(str(name))
    elif isinstance(value, (list, tuple)):
        for index, item in enumerate(value):
            yield from _texts(item, (*path, index))
    elif value is not None:
        yield path, show(as_text(value))
