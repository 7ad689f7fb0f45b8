"""Compares two configs as data, and finds out what each change requires of a running cluster.

With the extra, ParallelCluster's own comparison and update policies are used; without it, only the
differences are known. This module must not read files or print.
"""

from __future__ import annotations

import copy
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.runs.clusters import AnyCluster, Config, Described
from clusterjobs.validation import optional_deps
from clusterjobs.validation.finding import Data

When = Literal["running", "replaced", "stopped", "queue", "cluster", ""]

# The defaults of ParallelCluster 3.16.
_DEFAULTS: dict[str, Any] = {
    "CapacityType": "ONDEMAND",
    "JobExclusiveAllocation": False,
    "MaxCount": 10,
    "MinCount": 0,
    "ScaledownIdletime": 10,
    "ScalingStrategy": "all-or-nothing",
}


# Update policies that are satisfied by replacing nodes: QueueUpdateStrategy DRAIN or TERMINATE.
_REPLACING = ("QUEUE_UPDATE_STRATEGY", "MANAGED_PLACEMENT_GROUP", "SHARED_STORAGE_UPDATE_POLICY")


@dataclass(frozen=True)
class Difference:
    """One change from `old` to `new`; None means that the key is absent.

    `when` it can be applied: "running" while the cluster runs, "replaced" likewise, by replacing
    nodes, "stopped" after its nodes were stopped, "queue" only to a queue with another name,
    "cluster" only to a new cluster, "" unknown.
    `policy` is ParallelCluster's name for the rule, `needs` its description of what to do.
    """

    path: str
    old: Any
    new: Any
    when: When = ""
    policy: str = ""
    needs: str = ""


def compare(old: Data, new: Data) -> list[Difference]:
    """Every difference; with the extra, in the order of ParallelCluster's schema."""
    before, after = _without_defaults(old), _without_defaults(new)
    if not optional_deps.is_installed():
        return list(plain_differences(before, after))
    with optional_deps.quiet(), optional_deps.environment({"AWS_DEFAULT_REGION": "us-east-1"}):
        return _with_policies(before, after)


def _without_defaults(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: item for key, item in value.items() if not _is_default(key, item)}
        return {key: _without_defaults(item) for key, item in kept.items()}
    return [_without_defaults(item) for item in value] if isinstance(value, list) else value


def _is_default(key: str, value: Any) -> bool:
    return key in _DEFAULTS and value == _DEFAULTS[key]


# ------------------------------------------------------------------ with ParallelCluster


def _with_policies(old: Data, new: Data) -> list[Difference]:
    """Check every change twice: for a cluster with running nodes, and for one without."""
    from pcluster.config.config_patch import ConfigPatch

    patches = [ConfigPatch(_cluster(running), old, new) for running in (True, False)]
    return [
        _difference(change, *(change.update_policy.check(change, patch) for patch in patches))
        for change in patches[0].changes
    ]


def _cluster(running: bool) -> Any:
    return types.SimpleNamespace(
        name="clusterjobs",
        stack_name="clusterjobs",
        has_running_capacity=lambda *_, **__: running,
        has_running_login_nodes=lambda *_, **__: running,
        head_node_instance=types.SimpleNamespace(state="running"),
    )


def _difference(change: Any, running: Any, stopped: Any) -> Difference:
    path = ".".join([*change.path, change.key])
    if change.is_list:
        name = (change.new_value or change.old_value).get("Name")
        path = f"{path}[{name}]" if name else path
    when: When = "running" if _succeeds(running) else "stopped" if _succeeds(stopped) else "cluster"
    if when == "running" and change.update_policy.name in _REPLACING:
        when = "replaced"
    if when == "cluster" and any(step.startswith("SlurmQueues[") for step in change.path):
        when = "queue"
    needs = "" if when in ("running", "replaced") else str(running[2] or running[1] or "")
    return Difference(
        path,
        _plain(change.old_value),
        _plain(change.new_value),
        when,
        change.update_policy.name,
        needs,
    )


def _succeeds(check: Any) -> bool:
    return str(check[0].value) == "SUCCEEDED"


def _plain(value: Any) -> Any:
    """Without the `visited` marks of ParallelCluster's comparison; its "-" becomes None."""
    if isinstance(value, dict):
        return {key: item for key, item in copy.copy(value).items() if key != "visited"}
    return None if value == "-" else value


# ------------------------------------------------------------------ without ParallelCluster


def plain_differences(old: Any, new: Any, path: str = "") -> Iterator[Difference]:
    if isinstance(old, dict) and isinstance(new, dict):
        for key in [*old, *(key for key in new if key not in old)]:
            inner = f"{path}.{key}" if path else key
            yield from plain_differences(old.get(key), new.get(key), inner)
    elif _is_named(old) and _is_named(new):
        befores, afters = ({item["Name"]: item for item in side} for side in (old, new))
        for name in [*befores, *(name for name in afters if name not in befores)]:
            yield from plain_differences(befores.get(name), afters.get(name), f"{path}[{name}]")
    elif old != new:
        yield Difference(path, old, new)


def _is_named(value: Any) -> bool:
    """Whether it is a list of entries with names, whose order does not matter."""
    return isinstance(value, list) and all(
        isinstance(item, dict) and "Name" in item for item in value
    )


# ------------------------------------------------------------------ cluster differences
#
# The differences of two clusters: of two ParallelCluster configs, of two descriptions, or of one
# of each by the facts that a plan has of them.


def differences(old: AnyCluster, new: AnyCluster) -> list[Difference]:
    """What has to change in `old` to get `new`."""
    if isinstance(old, Config) and isinstance(new, Config):
        return compare(old.data, new.data)
    if isinstance(old, Described) and isinstance(new, Described):
        return list(plain_differences(_as_data(old), _as_data(new)))
    return list(plain_differences(_facts(old.facts), _facts(new.facts)))


def _as_data(one: Described) -> dict[str, Any]:
    """Without defaults, the name among them: a file's name is no difference."""
    return one.description.model_dump(mode="json", exclude_defaults=True)


def _facts(facts: ClusterFacts) -> dict[str, Any]:
    """The facts that are known, by the names of partitions, node groups and folders."""
    partitions = {
        one.name: {
            **_known(one, "name", "node_groups", "bucket_access", "placeholder"),
            "node_groups": {
                group.name: {
                    **_known(group, "name", "node_type", "type_names", "limit"),
                    "node_type": _known(group.node_type, "name", "placeholder"),
                }
                for group in one.node_groups
            },
        }
        for one in facts.partitions
    }
    own = _known(facts, "name", "partitions", "mounts", "terms", "shared_folders")
    mounts = {one.path: one.kind for one in facts.mounts}
    return {**own, "partitions": partitions, "mounts": mounts}


def _known(record: Any, *left_out: str) -> dict[str, Any]:
    values = record._asdict().items()
    return {
        key: list(value) if isinstance(value, tuple) else value
        for key, value in values
        if key not in left_out and value is not None
    }
