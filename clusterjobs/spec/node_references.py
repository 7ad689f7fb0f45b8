"""References to values that only the running job knows: `{{ job.id }}`, `{{ env.SCRATCH }}`,
`{{ point.name }}`.

Each becomes a mark for a shell variable, which the script expands. This module knows the names that
a spec may refer to; it must not know where a spec uses them.
"""

from __future__ import annotations

import re

from clusterjobs.errors import did_you_mean
from clusterjobs.spec.plan_references import NODE_RANK
from clusterjobs.spec.references import BadReferenceError, variable
from clusterjobs.spec.reserved_names import RESERVED_NAMES, is_of_the_script

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
# bash sets them too, but to what a user expects.
_USEFUL = ("PWD", "UID", "EUID")


def job_value(name: str) -> str:
    """The mark for `{{ job.<name> }}`. Raises BadReferenceError."""
    if name not in _OF_THE_JOB:
        known = [f"job.{one}" for one in _OF_THE_JOB]
        raise BadReferenceError(f"there is no value job.{name}", did_you_mean(f"job.{name}", known))
    return variable(_OF_THE_JOB[name], required=name == "array_index")


def point_value(name: str) -> str:
    """The mark for `{{ point.<name> }}`. Raises BadReferenceError."""
    if name not in _OF_THE_POINT:
        known = [f"point.{one}" for one in _OF_THE_POINT]
        hint = did_you_mean(f"point.{name}", known)
        raise BadReferenceError(f"there is no value point.{name}", hint)
    return variable(_OF_THE_POINT[name])


def node_variable(name: str) -> str:
    """The mark for `{{ env.<name> }}`: the job ends if the variable is not set on the node.

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
    if name not in _USEFUL and (reason := RESERVED_NAMES.get(name)):
        raise BadReferenceError(
            f"{name} cannot be referred to: {reason}", "write the value instead"
        )
    return variable(name, required=True)
