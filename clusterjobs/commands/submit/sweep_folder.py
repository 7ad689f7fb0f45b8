"""The folder of a sweep on this machine, `<logs>/<sweep>`, in which several people may submit.

It knows where it is, and who may write to it; it must not know what is in it.
"""

from __future__ import annotations

import contextlib
import pathlib
import stat
from collections.abc import Iterable

from clusterjobs.commands.job_folders import logs_folder
from clusterjobs.commands.lab_paths import is_in_lab, on_this_machine
from clusterjobs.errors import InputError, one_problem
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.references import as_text


def sweep_name(experiment: Experiment) -> str:
    """The name of the sweep's folder: `sweep.name`, or else the spec's name."""
    sweep = experiment.sweep
    return (sweep and sweep.name) or experiment.name


def sweep_folder(experiment: Experiment) -> pathlib.Path:
    """The folder, which may not exist yet. Raises InputError if a variable in `logs` is unset."""
    return logs_folder(as_text(experiment.logs.path)) / sweep_name(experiment)


def make_sweep_folder(experiment: Experiment) -> pathlib.Path:
    """Make the folder with what is above it, if it is missing. Raises InputError."""
    return _make_below_logs(sweep_folder(experiment), experiment)


def make_logs_folder(experiment: Experiment) -> pathlib.Path:
    """Make the folder `logs`, if it is missing. Raises InputError."""
    return _make_below_logs(logs_folder(as_text(experiment.logs.path)), experiment)


def _make_below_logs(folder: pathlib.Path, experiment: Experiment) -> pathlib.Path:
    written = as_text(experiment.logs.path)
    first = on_this_machine(pathlib.Path(*pathlib.PurePath(written).parts[:2]))
    if first.is_absolute() and not first.is_dir():
        raise _not_here(written, str(first))
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
        folder.mkdir(exist_ok=True)
        share_with_group(folder)


def _is_shared(folder: pathlib.Path) -> bool:
    mode = folder.stat().st_mode
    return bool(mode & stat.S_IWGRP and mode & stat.S_ISGID)


def _not_here(written: str, first: str) -> InputError:
    lab = "" if is_in_lab() else '; in the lab: eval "$(clusterjobs lab env)"'
    return one_problem(
        f"the state of the jobs is in {written}, and there is no {first} here",
        path="logs",
        hint=f"submit where the cluster's folders are, for example on its head node{lab}",
    )
