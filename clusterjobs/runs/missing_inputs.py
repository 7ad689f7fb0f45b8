"""Warns about inputs of a job that are missing here, if their folder exists on this machine."""

from __future__ import annotations

import itertools
import os
import pathlib
import shlex
import stat
from collections.abc import Iterator

from clusterjobs.errors import Problem
from clusterjobs.runs.lab_paths import on_this_machine
from clusterjobs.sections.plan import Plan
from clusterjobs.text import Value, joined, show, split_text


def missing_inputs(plan: Plan) -> tuple[Problem, ...]:
    """Warnings only: the folder of the same name on the cluster may have other files.

    In the shell of a lab, its jobs see the same files.
    """
    return tuple(_missing(plan))


def _missing(plan: Plan) -> Iterator[Problem]:
    workdir = plan.job.workdir or "."
    for one in plan.staging.inputs:
        path = _fixed(one.path if one.path.startswith("/") else joined(workdir, "/", one.path))
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


def _fixed(path: Value) -> pathlib.Path | None:
    """The absolute path; None if it depends on a node's variable or on where sbatch is called."""
    return pathlib.Path(path) if isinstance(path, str) and path.startswith("/") else None


def _is_missing(path: pathlib.Path) -> bool:
    try:
        on_this_machine(path).lstat()
    except FileNotFoundError:
        return True
    except OSError:  # no permission, or not a valid path
        pass
    return False


# ------------------------------------------------------------------ shared logs
#
# Warns about a `logs` folder on this machine in which a job would not start.
#
# The rule is that of `make_job_folder` in the job script: no other user may change or replace a
# job's folder.


def unsafe_logs(plan: Plan) -> tuple[Problem, ...]:
    """A warning only: the folder of the same name on the cluster may be another one."""
    logs = fixed_logs(plan)
    unsafe = _unsafe_folder(on_this_machine(logs)) if logs else None
    if unsafe is None:
        return ()
    return (
        Problem(
            f"other users can change or replace {unsafe}: if the nodes have the same folder, "
            "the job ends before it writes there",
            path="logs",
            hint=f"`chmod +t {shlex.quote(str(unsafe))}`, or choose one of your own "
            "(see docs/job-script.md)",
            warning=True,
        ),
    )


def fixed_logs(plan: Plan) -> str:
    """The part of `logs` without variables of a node or a point; "" if there is none."""
    names = split_text(plan.job.folder, lambda text: text.split("/"))[:-1]
    fixed = itertools.takewhile(lambda name: isinstance(name, str), names)
    return "/".join(map(show, fixed))


def _unsafe_folder(path: pathlib.Path) -> pathlib.Path | None:
    """The first folder on the way to `path` that is not safe; None also if that is unknown."""
    users = {pathlib.Path("/usr").stat().st_uid, os.geteuid()}
    groups = {os.getegid(), *os.getgroups()}
    is_in_open = False
    try:
        real = path.resolve()
        for folder in (*reversed(real.parents), real):
            now = folder.stat()
            is_open = bool(now.st_mode & stat.S_IWOTH)
            if is_open and not now.st_mode & stat.S_ISVTX:
                return folder
            if is_in_open and now.st_uid not in users and now.st_gid not in groups:
                return folder
            is_in_open = is_open
    except (OSError, RuntimeError):  # it is not here, cannot be read, or is a circle of links
        pass
    return None
