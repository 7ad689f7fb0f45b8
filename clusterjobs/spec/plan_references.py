"""References to values that only the plan knows, such as `{{ world_size }}`, and where each
reference that is not a plain value may be used.

A mark takes the place of the value until the plan knows it (plan/derived_references.py). This
module knows the names and the keys; it must not know how the values are derived.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from clusterjobs.spec.references import BadReferenceError, variable_names
from clusterjobs.spec.role_references import is_address
from clusterjobs.yaml.document import Path

_NODES = ("cluster", "queue", "instance_type")
_RANKS = (*_NODES, "gpus_per_node", "ranks_per_node")
_SIZES = (*_RANKS, "nodes", "parallel", "batch")

# Name -> the keys of the spec that decide it.
DERIVED: Mapping[str, tuple[str, ...]] = {
    "nodes": ("nodes",),
    "gpus_per_node": (*_NODES, "gpus_per_node"),
    "ranks_per_node": _RANKS,
    "cpus_per_task": (*_RANKS, "cpus_per_task", "launcher", "sbatch"),
    "world_size": (*_RANKS, "nodes"),
    "parallel.tensor": ("parallel",),
    "parallel.pipeline": ("parallel",),
    "parallel.virtual_pipeline": ("parallel",),
    "parallel.context": ("parallel",),
    "parallel.expert": ("parallel",),
    "data_parallel": (*_RANKS, "nodes", "parallel"),
    "batch.micro": _SIZES,
    "batch.accumulation": _SIZES,
    "batch.global": _SIZES,
}
NODE_RANK = "CLUSTERJOBS_NODE_RANK"  # the shell variable of {{ job.node_rank }}

_OF_THE_RANKS = ("args", "command", "prefix", "env")
AFTER_THE_PLAN = (  # read when all derived values are known
    *_OF_THE_RANKS,
    "before",
    "after",
    "sidecars",
    "roles",
    "checkpoints",
)
_MARK = re.compile("\0([a-z_]+):=\0")
_BY_MARK = {name.replace(".", "_"): name for name in DERIVED}


def derived_mark(name: str) -> str:
    """The placeholder for the derived value `name` of DERIVED."""
    return f"\0{name.replace('.', '_')}:=\0"


def with_values(text: str, value_of: Callable[[str], str]) -> str:
    """The text with the derived values in place of their marks."""
    return _MARK.sub(lambda match: value_of(_BY_MARK[match[1]]), text)


def check_place(path: Path, value: Any, way: Callable[[str], list[str]]) -> None:
    """Refuse references in the value at `path` that cannot be known there.

    `way`: the references that lead from this value to a name. Raises BadReferenceError.
    """
    if not isinstance(value, str):
        return
    key = str(path[0])
    for mark in _MARK.findall(value):
        name = _BY_MARK[mark]
        if key in DERIVED[name]:
            circle = " -> ".join([key, *way(name), key])
            raise BadReferenceError(f"circular reference: {circle}", "write the value here")
        if key not in AFTER_THE_PLAN:
            raise BadReferenceError(
                f"{name} cannot be used here: it is computed after this key is read",
                f"write the value here; {name} can be used in {_list(AFTER_THE_PLAN)}",
            )
    if key not in AFTER_THE_PLAN and any(map(is_address, variable_names(value))):
        raise BadReferenceError(
            "the address of a role cannot be used here: this key is read before it is known",
            f"use it in {_list(AFTER_THE_PLAN)}",
        )
    if NODE_RANK in variable_names(value) and key not in _OF_THE_RANKS:
        raise BadReferenceError(
            "job.node_rank differs on each node: "
            "it can be used only in the command and env of the ranks",
            f"use it in {_list(_OF_THE_RANKS)}; other commands can read $SLURM_NODEID",
        )


def _list(keys: tuple[str, ...]) -> str:
    return f"{', '.join(keys[:-1])} and {keys[-1]}"
