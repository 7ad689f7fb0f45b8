"""References to values that only the running job knows: `{{ job.id }}`, `{{ env.SCRATCH }}`,
`{{ point.name }}`.

Each becomes a `ShellVariable`, which the script expands.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from clusterjobs.errors import did_you_mean
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.model import known_keys
from clusterjobs.spec.references import BadReferenceError
from clusterjobs.spec.reserved_names import (
    COMPUTED,
    RESERVED_NAMES,
    USEFUL_NAMES,
    is_of_the_script,
)
from clusterjobs.text import DerivedValue, Text, variable, variable_names
from clusterjobs.yaml.document import Path

if TYPE_CHECKING:
    from clusterjobs.spec.keys.steps import Role


# ------------------------------------------------------------------ role references
# The variables with the addresses of roles, and the references to them: `{{ roles.server.addr }}`.


TRAINING_NODES = "CLUSTERJOBS_TRAINING_NODES"  # the nodes that train, with commas
_VARIABLE = re.compile(r"CLUSTERJOBS_[A-Z0-9_]+_(?:ADDR|NODES)")


def nodes_variable(role: str) -> str:
    """The variable with all nodes of a role, with commas."""
    return f"CLUSTERJOBS_{role.upper()}_NODES"


def addr_variable(role: str) -> str:
    """The variable with the first node of a role."""
    return f"CLUSTERJOBS_{role.upper()}_ADDR"


def port_variable(role: str) -> str:
    """The variable with the port of a role."""
    return f"CLUSTERJOBS_{role.upper()}_PORT"


# What a reference may name, beside the keys of a role.
_ADDRESSES = {"addr": addr_variable, "addrs": nodes_variable}


def role_variables(roles: Mapping[str, Role]) -> Iterator[str]:
    """The names of all variables with addresses; none without roles."""
    if roles:
        yield TRAINING_NODES
    for name, role in roles.items():
        yield from (nodes_variable(name), addr_variable(name))
        if role.port is not None:
            yield port_variable(name)


def role_address(name: str, roles: Any) -> Text | None:
    """The value of `{{ roles.<name> }}`, if that is an address; None if it is a key of the role.

    `addr` is the first node of the role, `addrs` all of them. Raises BadReferenceError.
    """
    role, _, what = name.partition(".")
    known = roles if isinstance(roles, Mapping) else {}
    if role not in known:
        add = f"add `roles: {{{role}: {{command: ...}}}}`"
        hint = did_you_mean(role, list(map(str, known))) if known else add
        raise BadReferenceError(f"there is no role {role}", hint)
    if what in _ADDRESSES:
        return variable(_ADDRESSES[what](role))
    keys = known[role] if isinstance(known[role], Mapping) else {}
    if what.partition(".")[0] not in keys:
        hint = did_you_mean(what, [*_ADDRESSES, *map(str, keys)])
        raise BadReferenceError(f"roles.{name} is not given", hint)
    return None


def is_address(name: str) -> bool:
    """Whether a shell variable has the address of a role."""
    return _VARIABLE.fullmatch(name) is not None


# ------------------------------------------------------------------ plan references
# References to values that only the plan knows, such as `{{ world_size }}`, and where each
# reference that is not a plain value may be used.
# A `DerivedValue` takes their place until they are planned (sections/complete.py).


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
LATEST = "latest"  # the shell variable of {{ checkpoints.latest }}
NODE_RANK = "CLUSTERJOBS_NODE_RANK"  # the shell variable of {{ job.node_rank }}

_REFERENCES = {name: key.references for name, key in known_keys(Experiment).items() if key}
# Keys that only the ranks read, and keys that are read when all derived values are known.
OF_THE_RANKS = tuple(name for name, one in _REFERENCES.items() if one == "ranks")
AFTER_THE_PLAN = tuple(name for name, one in _REFERENCES.items() if one in ("plan", "ranks"))


def check_place(path: Path, value: Any, way: Callable[[str], list[str]]) -> None:
    """Refuse references in the value at `path` that cannot be known there.

    `way`: the references that lead from this value to a name. Raises BadReferenceError.
    """
    if not isinstance(value, Text):
        return
    key = str(path[0])
    for name in (one.name for one in value.parts if isinstance(one, DerivedValue)):
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
    check_computed(path, value)
    if LATEST in variable_names(value) and key not in ("args", "command"):
        raise BadReferenceError(
            "checkpoints.latest is looked up just before the ranks start",
            "use it in args or command",
        )
    is_of_ranks = key in OF_THE_RANKS or path[1:] in _OF_LAUNCHERS
    if NODE_RANK in variable_names(value) and not is_of_ranks:
        raise BadReferenceError(
            "job.node_rank differs on each node: "
            "it can be used only in the command and env of the ranks",
            f"use it in {_list(OF_THE_RANKS)}; other commands can read $SLURM_NODEID",
        )


def check_computed(path: Path, value: Any) -> None:
    """Refuse `{{ values.NAME }}` in what is read before the commands have printed the values."""
    is_after = str(path[0]) in _AFTER_VALUES or path[0:3:2] == ("values", "command")
    if not (is_after or path[1:] in _OF_LAUNCHERS) and any(
        name.startswith(COMPUTED) for name in variable_names(value)
    ):
        raise BadReferenceError(
            "a value that a command prints is known once the environment is set up",
            f"use it in {_list(_AFTER_VALUES)}",
        )


def computed_value(name: str, values: Any) -> Text:
    """The value of `{{ values.<name> }}`. Raises BadReferenceError."""
    known = [*map(str, values)] if isinstance(values, Mapping) else []
    if name not in known:
        add = f"add `values: {{{name}: {{command: [...]}}}}`"
        raise BadReferenceError(
            f"there is no value values.{name}", did_you_mean(name, known) if known else add
        )
    return variable(COMPUTED + name)


# Options of launchers: torchrun.role, accelerate.gradient_accumulation_steps
_OF_LAUNCHERS = (("role",), ("gradient_accumulation_steps",))
_AFTER_VALUES = ("args", "command", "env", "prefix", "before", "after", "sidecars", "roles")


def _list(keys: tuple[str, ...]) -> str:
    return f"{', '.join(keys[:-1])} and {keys[-1]}"


# Name after `job.` -> the shell variable of the script, or of Slurm. Source: sbatch(1), OUTPUT
# ENVIRONMENT VARIABLES; the script sets those in small letters.
_OF_THE_JOB = {
    "id": "SLURM_JOB_ID",
    "dir": "job_dir",
    "attempt": "attempt",
    "array_index": "SLURM_ARRAY_TASK_ID",
    "node_rank": NODE_RANK,
}

# Name after `point.` -> the shell variable, which a script sets from its table of points.
_OF_THE_POINT = {one: f"point_{one}" for one in ("name", "label", "index")}

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def job_value(name: str) -> Text:
    """The value of `{{ job.<name> }}`. Raises BadReferenceError."""
    if name not in _OF_THE_JOB:
        known = [f"job.{one}" for one in _OF_THE_JOB]
        raise BadReferenceError(f"there is no value job.{name}", did_you_mean(f"job.{name}", known))
    return variable(_OF_THE_JOB[name], required=name == "array_index")


def point_value(name: str) -> Text:
    """The value of `{{ point.<name> }}`. Raises BadReferenceError."""
    if name not in _OF_THE_POINT:
        known = [f"point.{one}" for one in _OF_THE_POINT]
        hint = did_you_mean(f"point.{name}", known)
        raise BadReferenceError(f"there is no value point.{name}", hint)
    return variable(_OF_THE_POINT[name])


def node_variable(name: str) -> Text:
    """The value of `{{ env.<name> }}`: the job ends if the variable is not set on the node.

    Raises BadReferenceError for names that the job unsets, or that belong to the script.
    """
    if not _NAME.fullmatch(name):
        raise BadReferenceError(
            f"{name!r} is not the name of a variable", "use letters, digits and _"
        )
    if is_of_the_script(name):
        raise BadReferenceError(f"{name} is a variable of the script itself", "choose another one")
    if name.startswith("PYTHON"):
        raise BadReferenceError(
            f"{name} never has a value: the job unsets it first", "set it under env:"
        )
    if name not in USEFUL_NAMES and (reason := RESERVED_NAMES.get(name)):
        raise BadReferenceError(
            f"{name} cannot be referred to: {reason}", "write the value instead"
        )
    return variable(name, required=True)
