"""The folders of jobs below a `logs` folder, and from which spec each job was rendered.

job.sh writes plan.json into the folder of its job: by it the jobs of one spec are found, also where
several specs share a `logs` folder.
"""

from __future__ import annotations

import json
import pathlib
from typing import Any, NamedTuple


class JobFolder(NamedTuple):
    """The folder `<logs>/<job id>` of one job; `plan` is what its plan.json holds."""

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
    """The folders of all jobs below `logs`, the newest job last."""
    paths = [path for path in logs.glob("[0-9]*") if path.name.isdecimal() and path.is_dir()]
    return [
        JobFolder(path.name, path, _read_plan(path / "plan.json"))
        for path in sorted(paths, key=lambda path: int(path.name))
    ]


def _read_plan(path: pathlib.Path) -> dict[str, Any]:
    """An empty plan where the file is missing or damaged: the job is of no known spec."""
    try:
        plan = json.loads(path.read_text(encoding="utf-8", errors="replace"))
    except (OSError, ValueError, RecursionError):
        return {}
    return plan if isinstance(plan, dict) else {}
