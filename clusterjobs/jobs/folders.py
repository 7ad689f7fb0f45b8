"""The folders of jobs below a `logs` folder, and the spec that each job was rendered from.

job.sh writes plan.json into its job's folder, so the jobs of one spec can be found even if several
specs share a `logs` folder.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any, NamedTuple

from clusterjobs.regular_file import open_regular

_MAX_PLAN = 1 << 20  # bytes; a longer file is damaged


class JobFolder(NamedTuple):
    """The folder `<logs>/<job id>` of one job; `plan` is the content of its plan.json."""

    job_id: str
    path: pathlib.Path
    plan: dict[str, Any]

    def is_of(self, name: str, file: str) -> bool:
        """Whether the job was rendered from the spec with this `name:` and this file name."""
        spec = self.plan.get("spec")
        if not isinstance(spec, dict) or spec.get("file") != file:
            return False
        settings = spec.get("set")
        renamed = isinstance(settings, list) and any(
            str(one).startswith("name=") for one in settings
        )
        return renamed or self.plan.get("name") == name


def job_folders(logs: pathlib.Path) -> list[JobFolder]:
    """The folders of all jobs below `logs`, the newest job last; links are not followed."""
    found = [path for path in logs.glob("[0-9]*") if path.name.isdecimal()]
    paths = [path for path in found if path.is_dir() and not path.is_symlink()]
    return [
        JobFolder(path.name, path, read_plan(path / "plan.json"))
        for path in sorted(paths, key=lambda path: int(path.name))
    ]


def read_plan(path: pathlib.Path) -> dict[str, Any]:
    """An empty plan if the file is missing or damaged: the job's spec is unknown."""
    try:
        with open_regular(path) as file:
            plan = json.loads(file.read(_MAX_PLAN).decode(errors="replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return plan if isinstance(plan, dict) else {}
