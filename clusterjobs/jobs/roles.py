"""The roles of a job, from the plan.json in its folder.

It knows their nodes, ports and logs; it must not know Slurm.
"""

from __future__ import annotations

import pathlib
from typing import Any

from clusterjobs.jobs.folders import read_plan


def job_roles(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The roles, with their nodes, numbered from 1 among the job's nodes: "3", or "3-4".

    Empty if the job has none, or if plan.json is missing or damaged.
    """
    found = read_plan(folder / "plan.json").get("roles")
    roles = found if isinstance(found, list) else []
    return [_role(one, folder) for one in roles if isinstance(one, dict) and _is_whole(one)]


def _is_whole(role: dict[str, Any]) -> bool:
    is_number = all(isinstance(role.get(key), int) for key in ("first_node", "nodes"))
    return is_number and isinstance(role.get("name"), str)


def _role(role: dict[str, Any], folder: pathlib.Path) -> dict[str, Any]:
    first, last = role["first_node"] + 1, role["first_node"] + role["nodes"]
    return {
        "role": role["name"],
        "nodes": str(first) if first == last else f"{first}-{last}",
        "port": role["port"] if isinstance(role.get("port"), int) else None,
        "log": str(folder / f"{role['name']}.log"),
    }
