"""Warns about inputs of a job that are missing here, if their folder exists on this machine."""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from clusterjobs.commands.lab_paths import on_this_machine
from clusterjobs.errors import Problem
from clusterjobs.plan.plan import Plan
from clusterjobs.spec.references import has_variable


def missing_inputs(plan: Plan) -> tuple[Problem, ...]:
    """Warnings only: the folder of the same name on the cluster may have other files.

    In the shell of a lab, its jobs see the same files.
    """
    return tuple(_missing(plan))


def _missing(plan: Plan) -> Iterator[Problem]:
    workdir = plan.job.workdir or "."
    for one in plan.staging.inputs:
        path = _fixed(one.path if one.path.startswith("/") else f"{workdir}/{one.path}")
        if path is None or one.made_late or not _is_missing(path):
            continue
        if not on_this_machine(path).parent.is_dir():
            continue
        staged = _fixed(one.staged) if one.staged else path
        if staged and _is_missing(staged):
            yield Problem(
                f"there is no {path}, though its folder is here: if the nodes have the same one, "
                "the job ends before the training",
                one.where,
                one.key,
                "correct the path, or put the file there before the job starts",
                warning=True,
            )


def _fixed(path: str) -> pathlib.Path | None:
    """The absolute path; None if it depends on a node's variable or on where sbatch is called."""
    is_fixed = path.startswith("/") and not has_variable(path)
    return pathlib.Path(path) if is_fixed else None


def _is_missing(path: pathlib.Path) -> bool:
    try:
        on_this_machine(path).lstat()
    except FileNotFoundError:
        return True
    except OSError:  # no permission, or not a valid path
        pass
    return False
