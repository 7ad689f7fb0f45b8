"""The differences of two clusters: of two ParallelCluster configs, of two descriptions, or of one
of each by the facts that a plan has of them.
"""

from __future__ import annotations

from typing import Any

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.commands.configs import AnyCluster, Config, Described
from clusterjobs.parallelcluster.validation.compare import Difference, compare, plain_differences


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
