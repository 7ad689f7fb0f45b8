"""The folder `logs` on this machine, and that of a sweep in it, where several people may submit."""

import contextlib
import os
import pathlib
import stat
from collections.abc import Iterable

from clusterjobs.errors import one_problem
from clusterjobs.plugins import local_cluster, on_this_machine
from clusterjobs.spec.experiment import Experiment
from clusterjobs.text import Reference, ShellVariable, Text, Value, expanding, replaced, show


def logs_folder(path: Value) -> pathlib.Path:
    """The folder of `logs` on this machine. Raises InputError if a variable in it is unset."""
    written = show(path)

    def value_of(one: Reference) -> Value:
        if found := os.environ.get(one.name):
            return found
        default = one.default if isinstance(one, ShellVariable) else None
        if default is None:
            raise one_problem(
                f"logs is {written}, and {one.name} is not set here",
                hint=f"{one.name}=... clusterjobs ...",
            )
        return replaced(default, value_of)

    return on_this_machine(show(replaced(expanding(written), value_of)))


def sweep_name(spec: Experiment) -> str:
    """The name of the sweep's folder: `sweep.name`, or else the spec's name."""
    sweep = spec.sweep
    return (sweep and sweep.name) or spec.name


def sweep_folder(spec: Experiment) -> pathlib.Path:
    """The folder, which may not exist yet. Raises InputError if a variable in `logs` is unset."""
    return logs_folder(spec.logs.path) / sweep_name(spec)


def make_sweep_folder(spec: Experiment) -> pathlib.Path:
    """Make the folder with what is above it, if it is missing. Raises InputError."""
    return _make_below_logs(sweep_folder(spec), spec)


def make_logs_folder(spec: Experiment) -> pathlib.Path:
    """Make the folder `logs`, if it is missing. Raises InputError."""
    return _make_below_logs(logs_folder(spec.logs.path), spec)


def _make_below_logs(folder: pathlib.Path, spec: Experiment) -> pathlib.Path:
    written = spec.logs.path
    if isinstance(written, Text):
        what = f"logs is {show(written)}, which is known only in the job, so it cannot be made here"
        raise one_problem(what, path="logs", hint="write a path without these references")
    first = on_this_machine(pathlib.Path(*pathlib.PurePath(written).parts[:2]))
    if first.is_absolute() and not first.is_dir():
        lab = "" if local_cluster() else '; in the lab: eval "$(clusterjobs lab env)"'
        raise one_problem(
            f"the state of the jobs is in {written}, and there is no {first} here",
            path="logs",
            hint=f"submit where the cluster's folders are, for example on its head node{lab}",
        )
    try:
        for one in (*reversed(folder.parents), folder):
            _make(one)
    except OSError as error:
        raise one_problem(f"cannot make {folder}: {error.strerror}", path="logs") from None
    return folder


def make_point_folders(folder: pathlib.Path, names: Iterable[str]) -> None:
    """Make the points' folders, where a group shares the sweep's.

    Otherwise the first job of a point would make a folder in which only its user may write.
    """
    if _is_shared(folder):
        with contextlib.suppress(OSError):  # the job makes its own folder, or reports why it cannot
            for name in names:
                _make(folder / name)


def share_with_group(path: pathlib.Path) -> None:
    """Make it writable by the group, like the folder that contains it."""
    if _is_shared(path.parent):
        with contextlib.suppress(OSError):  # it belongs to another user, who made it writable
            path.chmod(stat.S_IMODE(path.stat().st_mode) | stat.S_IWGRP)


def _make(folder: pathlib.Path) -> None:
    if not folder.is_dir():
        folder.mkdir(0o755, exist_ok=True)
        share_with_group(folder)


def _is_shared(folder: pathlib.Path) -> bool:
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWGRP and mode & stat.S_ISGID)
