"""Data that every node reads, in the framework's own arguments: is it where every node sees it?

Knows the cluster's folders; it must not know any framework's flags.
"""

from __future__ import annotations

from collections.abc import Iterable

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import DataPath
from clusterjobs.plan.storage import Storage, is_below
from clusterjobs.spec.experiment import Experiment


def check_data_paths(
    paths: Iterable[DataPath],
    nodes: int,
    experiment: Experiment,
    storage: Storage,
    diagnostics: Diagnostics,
) -> None:
    """Warn of paths on each node's own disk, when there is more than one node.

    Data that the job copies to every node is there; so is what a step on every node may have made.
    """
    made_on_nodes = any(step.per == "node" for step in experiment.before)
    for one in paths if nodes > 1 else ():
        if not storage.is_own(one.path) or storage.is_shared(one.path):
            continue
        on_every_node = made_on_nodes or any(
            data.scope == "node" and is_below(one.path, data.target) for data in experiment.data
        )
        if on_every_node and not one.indexed:
            continue
        why = (
            f"only the first node writes the index beside {one.path}, and {nodes - 1} would not "
            "find it"
            if on_every_node
            else f"{one.path} is each node's own disk, and {nodes} nodes use it"
        )
        hint = f"a folder that all nodes share: {storage.mounts}"
        diagnostics.problem(one.key, why, hint, warning=True)
