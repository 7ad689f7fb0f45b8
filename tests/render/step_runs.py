"""Specs with steps, run in bash beside stand-ins for Slurm's commands."""

from __future__ import annotations

import pathlib
from typing import Any

from script_runs import Run, run_script, script

WAIT = "touch started; until [[ -e signalled ]]; do sleep 0.05; done"


def run_steps(
    folder: pathlib.Path, training: str = "touch trained", more: Any = None, **keys: Any
) -> Run:
    """A small spec whose training leaves the file `trained`; `more`: of run_script."""
    text = script(nodes=1, command=["bash", "-c", training], **keys)
    options = {"environment": {}, **(more or {})}
    options["environment"] = {"SLURM_CPUS_ON_NODE": "2", **options["environment"]}
    return run_script(folder, text, **options)


def with_restarts(folder: pathlib.Path) -> dict[str, Any]:
    checkpoints = {"path": str(folder / "checkpoints")}
    restarts = {"failure": 2, "time_limit": 2}
    return {"checkpoints": checkpoints, "restarts": restarts, "time_limit": "1-00:00:00"}


def step(code: str, **keys: Any) -> dict[str, Any]:
    return {"command": ["bash", "-c", code], **keys}


def trained(end: Run) -> bool:
    return (end.folder / "trained").exists()
