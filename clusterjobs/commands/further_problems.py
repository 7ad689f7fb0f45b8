"""Problems of the plan that do not depend on the wrong values of a spec.

It knows which keys of a spec are checked against each other; it must not know how.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from clusterjobs.errors import Problem

# Keys that are checked against each other: if one is wrong, problems of the others are left out.
_TOGETHER = (
    {
        *("cluster", "queue", "instance_type", "nodes", "gpus_per_node", "ranks_per_node"),
        *("cpus_per_task", "launcher", "framework", "model", "parallel", "batch", "zero"),
        *("configs", "config_dir", "fairseq"),
    },
    {"time_limit", "restarts", "checkpoints", "framework", "launcher", "cluster", "queue"},
    {"script", "command", "framework", "workdir"},
    {"data", "checkpoints", "logs", "workdir", "cluster", "queue", "instance_type"},
    {"env", "parameters", "secrets"},
    {"ssh", "srun", "launcher", "framework", "software"},
    {"preflight", "software", "nodes", "cluster"},
)


def independent(found: Iterable[Problem], wrong: Sequence[Problem]) -> Iterator[Problem]:
    """The errors in `found` that do not follow from the problems `wrong` of the spec itself."""
    paths = [problem.path for problem in wrong]
    keys = {_key(path) for path in paths} | {meant for one in wrong if (meant := _meant(one))}
    for problem in found:
        key = _key(problem.path)
        if problem.warning or not key or any(_is_related(problem.path, path) for path in paths):
            continue
        if not any(key in group and keys & group for group in _TOGETHER):
            yield problem


def _key(path: str) -> str:
    return re.split(r"[.\[]", path, maxsplit=1)[0]


def _meant(problem: Problem) -> str:
    """The known key that an unknown key probably stands for."""
    found = re.match(r"(?:did you mean|write) (\w+)", problem.hint)
    return found[1] if found else ""


def _is_related(path: str, other: str) -> bool:
    """Whether the paths are the same, or one contains the other."""
    short, long = sorted((path, other), key=len)
    return long == short or long.startswith((f"{short}.", f"{short}["))
