"""Warnings about what this machine shows of a job: its inputs, checkpoints and folders.

Warnings only: the folders of the same names on the cluster may have other files.
"""

import functools
import grp
import itertools
import os
import pathlib
import pwd
import shlex
import stat
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.errors import Location, Problem
from clusterjobs.plugins import on_this_machine
from clusterjobs.sections.context import PointPlan
from clusterjobs.sections.plan import Input, Plan
from clusterjobs.spec.keys.sweep import Point
from clusterjobs.text import Value, joined, show, split_text


def warnings_here(points: Sequence[PointPlan], origin: str) -> Iterator[tuple[Problem, ...]]:
    """The warnings of each point. `origin`: of the spec, as in its checkpoints.

    Points mostly have the same inputs and folders, which are looked at once.
    """
    of_inputs, of_folders = functools.cache(missing_inputs), functools.cache(unsafe_folders)
    for one in points:
        plan = one.plan
        yield (
            *of_inputs(plan.job.workdir, plan.staging.inputs),
            *of_folders(_written_folders(plan), plan.job.trust),
            *_other_checkpoints(plan, one.point, origin),
        )


# ------------------------------------------------------------------ missing inputs
# Warns about inputs of a job that are missing here, if their folder or file system is here.


def missing_inputs(workdir: Value | None, inputs: Sequence[Input]) -> tuple[Problem, ...]:
    """Warn of inputs that are missing here, if jobs see the same files: in the shell of a lab."""
    return tuple(_missing(workdir or ".", inputs))


def _missing(workdir: Value, inputs: Sequence[Input]) -> Iterator[Problem]:
    folder = _fixed(workdir)
    what = _lack_of(folder) if folder else ""
    if what:
        yield _missing_path(what, None, "workdir")
    for one in inputs:
        is_inside = not one.path.startswith("/")
        path = _fixed(joined(workdir, "/", one.path) if is_inside else one.path)
        if path is None or one.made_late or (is_inside and what) or not (lack := _lack_of(path)):
            continue
        staged = _fixed(one.staged) if one.staged else path
        if staged and _is_missing(staged):
            yield _missing_path(lack, one.where, one.key)


def missing_where_submitted(
    plan: Plan, spec: pathlib.Path, options: Sequence[str]
) -> Iterator[Problem]:
    """Files of a spec without `workdir`: the job runs in this folder, if no `options` of sbatch
    name another one."""
    given = (*options, *(f"--{one.name}" for one in plan.job.directives))
    if plan.job.workdir or any(one.startswith(("--chdir", "-D")) for one in given):
        return
    folder = spec.parent
    for one in plan.staging.inputs:
        if one.made_late or not isinstance(one.path, str) or one.path.startswith("/"):
            continue
        beside = not (_is_missing(folder / one.path) or folder.samefile("."))
        is_here = not _is_missing(pathlib.Path(one.path))
        if is_here and not beside:
            continue
        what = f"the job runs here, where there is no {one.path}"
        if is_here:
            what = f"the job runs {one.path} of this folder, and not the one beside the spec"
        where = folder if beside else "the folder that has it"
        hint = f"submit in {where}, or write `workdir`"
        yield Problem(what, one.where, one.key, hint, warning=True)


def _missing_path(lack: str, where: Location | None, key: str) -> Problem:
    what = f"{lack}: if the nodes have the same one, the job ends before the training"
    hint = "correct the path, or put it there before the job starts"
    return Problem(what, where, key, hint, warning=True)


def _lack_of(path: pathlib.Path) -> str:
    """How it is missing; "" if it is there, or if nothing shows that its file system is here."""
    if not _is_missing(path):
        return ""
    if str(path.parent) not in _OF_ANY_MACHINE and on_this_machine(path).parent.is_dir():
        return f"there is no {path}, though its folder is here"
    mounts = (one for one in path.parents if str(one) not in _OF_ANY_MACHINE and _is_mounted(one))
    mount = next(mounts, None)
    return f"there is no {path}, though {mount} is here" if mount else ""


_OF_ANY_MACHINE = ("/", "/home", "/mnt", "/tmp")  # mounted here, they say nothing of the nodes


def _is_mounted(folder: pathlib.Path) -> bool:
    """Whether a file system is mounted there; in a lab's shell, whether the lab has the folder."""
    here = on_this_machine(folder)
    return here.is_dir() if here != folder else os.path.ismount(folder)


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


# ------------------------------------------------------------------ other checkpoints
# Warns about checkpoints of a training with other values, which the job refuses: origin.sh.j2.


_ORIGIN = ".clusterjobs-origin"


def _other_checkpoints(plan: Plan, point: Point, origin: str) -> Iterator[Problem]:
    """Warn of another training's checkpoints, if the folder can be read. `origin`: of the spec."""
    written = plan.checkpoints
    if written.path is None or written.resumes_any:
        return
    names: Callable[[Value], str] = show
    if point.values:
        from clusterjobs.spec.sweep import in_the_job  # most specs have one point

        names = functools.partial(in_the_job, point=point, packed=False)
    folder = on_this_machine(names(written.path))
    marker = str(on_this_machine(names(written.marker))) if written.marker else None
    if not os.path.lexists(folder / _ORIGIN):
        return
    from clusterjobs.files import open_regular  # most specs have no checkpoints yet
    from clusterjobs.node.job.attempt_files import newest_checkpoint

    try:
        with open_regular(folder / _ORIGIN) as file:
            there = {*file.read(_MOST_ORIGIN).decode(errors="replace").split()}
    except OSError:
        return
    keys = {one.partition("=")[0] for one in there ^ {*origin.split()}}
    if there and keys and newest_checkpoint(str(folder), marker):
        yield Problem(
            f"the checkpoints in {names(written.path)} are of another training, with another "
            f"{' '.join(sorted(keys))}: the job ends before the training",
            path="checkpoints.path",
            hint="choose another folder, or resume them with checkpoints: {from: any}",
            warning=True,
        )


_MOST_ORIGIN = 1 << 20  # bytes


# ------------------------------------------------------------------ shared folders
# Warns about folders of a job on this machine with which it would not start.
# The rule is that of `make_safe_folder.sh` in the job script: no other user may change or replace a
# job's folder or its copy of the log, nor add a checkpoint.


class _Written(NamedTuple):
    """A folder of the spec, up to its first variable. `closed`: nobody else may add files to it."""

    key: str
    path: str
    closed: bool = False


def _written_folders(plan: Plan) -> tuple[_Written, ...]:
    """The folders that a job checks before it writes there."""
    folders = [_written("logs", plan.job.folder, above=1)]
    if plan.job.log_copy:
        folders.append(_written("logs.copy", plan.job.log_copy, above=1))
    return (*folders, *(_written("checkpoints", one) for one in plan.files.folders))


def _written(key: str, path: Value, above: int = 0) -> _Written:
    """The key with the folder as it is written, or one so many levels above it."""
    names = split_text(path, lambda text: text.split("/"))
    fixed = itertools.takewhile(lambda name: isinstance(name, str), names[: len(names) - above])
    return _Written(key, "/".join(map(show, fixed)), not above and _fixed(path) is not None)


def unsafe_folders(folders: Sequence[_Written], trust: Sequence[str]) -> tuple[Problem, ...]:
    """One for each folder."""
    return tuple(_unsafe(folders, trust))


def _unsafe(folders: Sequence[_Written], trust: Sequence[str]) -> Iterator[Problem]:
    for one in folders:
        unsafe = _unsafe_folder(on_this_machine(one.path), trust, one.closed) if one.path else None
        if unsafe:
            what, folder = unsafe
            mend = f"`chmod +t {shlex.quote(str(folder))}`, " if what.endswith("replace") else ""
            yield Problem(
                f"{what} {folder}: if the nodes have the same folder, "
                "the job ends before it writes there",
                path=one.key,
                hint=f"{mend}choose one of your own, or write `trust` (see docs/job-script.md)",
                warning=True,
            )


def _unsafe_folder(
    path: pathlib.Path, trust: Sequence[str], closed: bool
) -> tuple[str, pathlib.Path] | None:
    """The first folder on the way to `path` that is not safe, after who can do what to it; None
    also if that is unknown."""

    try:
        usr, real, writer = pathlib.Path("/usr").stat(), path.resolve(), ""
        for folder in (*reversed(real.parents), real):
            now, above = folder.stat(), writer
            user, writer = _name(pwd.getpwuid, now.st_uid), _writer(now, usr, trust)
            is_own = now.st_uid in (usr.st_uid, os.geteuid()) or _is_in(trust, user, now.st_uid)
            is_open = above or writer or not now.st_mode & stat.S_IWGRP
            if not is_own and is_open:
                return f"user {user} can change or replace", folder
            if writer and closed and folder == real:
                return f"{writer} can add files to", folder
            if writer and not now.st_mode & stat.S_ISVTX:
                return f"{writer} can change or replace", folder
    except (OSError, RuntimeError):  # it is not here, cannot be read, or is a circle of links
        pass
    return None


def _writer(folder: os.stat_result, usr: os.stat_result, trust: Sequence[str]) -> str:
    """Who besides its owner may write to a folder, and is not trusted; "" for nobody."""
    if folder.st_mode & stat.S_IWOTH:
        return "everyone"
    number = folder.st_gid
    if not folder.st_mode & stat.S_IWGRP or number == usr.st_gid:
        return ""
    group = _name(grp.getgrgid, number)
    is_safe = _is_in(trust, group, number) or _is_of_nobody_else(number)
    return "" if is_safe else f"group {group}"


def _is_in(trust: Sequence[str], name: str, number: int) -> bool:
    return name in trust or str(number) in trust


@functools.cache
def _is_of_nobody_else(group: int) -> bool:
    """Whether a group is the caller's, with the caller's name, and nobody else is in it."""
    try:
        user, own = pwd.getpwuid(os.geteuid()), grp.getgrgid(group)
    except KeyError:
        return group == os.geteuid()
    others = {one.pw_name for one in pwd.getpwall() if one.pw_gid == group} | {*own.gr_mem}
    return own.gr_name == user.pw_name and others <= {user.pw_name}


def _name(look_up: Callable[[int], tuple[Any, ...]], number: int) -> str:
    try:
        return str(look_up(number)[0])
    except KeyError:
        return str(number)
