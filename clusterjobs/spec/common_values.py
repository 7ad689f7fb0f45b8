"""Compares the points of a sweep: some values must be equal, some folders must differ."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from clusterjobs.errors import Problem
from clusterjobs.spec.point_folders import OWN, in_the_job, is_shared
from clusterjobs.spec.references import POINT_VARIABLES, is_absolute, show, variable_names
from clusterjobs.yaml.document import Path, dotted

if TYPE_CHECKING:
    from clusterjobs.spec.load import Spec

# Arguments that name a folder which a training writes, by the usual names.
_WRITTEN = frozenset(
    (
        *("checkpoint_dir", "checkpoint_path", "ckpt_dir", "default_root_dir", "log_dir"),
        *("logdir", "logging_dir", "out", "out_dir", "output", "output_dir", "output_path"),
        *("save", "save_dir", "save_path", "tensorboard_dir", "tensorboard_logdir", "work_dir"),
    )
)


def is_packed(spec: Spec) -> bool:
    """Whether several points run in one task."""
    sweep = spec.experiment.sweep
    return ((sweep and sweep.per_node) or 1) > 1


_HINT = "refer only to values that are the same in all points"


def common_problems(specs: Sequence[Spec]) -> Iterator[Problem]:
    """A problem for the name, the cluster or the logs of the points if they differ.

    Also for a checkpoint folder of two points.
    """
    source, first = specs[0].source, specs[0].experiment
    for spec in specs:
        found = spec.experiment
        for key, one, other in (
            ("name", first.name, found.name),
            ("cluster", first.cluster, found.cluster),
            ("logs", first.logs.path, found.logs.path),
        ):
            if one != other:
                what = f"{show(other)}, and {show(one)} in other points: a sweep has one {key}"
                yield Problem(what, source.locate((key,)), key, _HINT)
    if set(POINT_VARIABLES).intersection(variable_names(first.logs.path)):
        what = "must be the same for all points: each point gets a folder of its own in it"
        yield Problem(what, source.locate(("logs",)), "logs", "remove the reference to the point")
    yield from _shared_folders(specs)


def _shared_folders(specs: Sequence[Spec]) -> Iterator[Problem]:
    """A problem for each point with the checkpoint folder of another one.

    Two names can make one path: 1 and 11, `{{ args.x }}{{ point.index }}`; a, and b/../a.
    """
    for key in ("path", "export"):
        known: dict[str, str] = {}
        for spec in specs:
            point, checkpoints = spec.point, spec.experiment.checkpoints
            folder = getattr(checkpoints, key) if checkpoints else None
            if not point or not folder:
                continue
            place = posixpath.normpath(in_the_job(folder, point, packed=is_packed(spec)))
            if known.setdefault(place, point.name) != point.name:
                where = ("checkpoints", key)
                what = f"{show(place)} is also that of the point {known[place]}"
                hint = f"let each end with a folder of its own: /{OWN}"
                yield Problem(what, spec.source.locate(where), dotted(where), hint)


def shared_arguments(specs: Sequence[Spec]) -> Iterator[Problem]:
    """A warning for each argument that is a folder which all points would write."""
    packed = is_packed(specs[0])
    first, *others = (dict(_folders(one.expanded.get("args"), packed)) for one in specs)
    for path, folder in first.items():
        if all(one.get(path) == folder for one in others):
            what = f"all points of the sweep would write into {show(folder)}"
            where, own = specs[0].source.locate(path), f"{show(folder).rstrip('/')}/{OWN}"
            yield Problem(what, where, dotted(path), f'write "{own}"', warning=True)


def _folders(arguments: Any, packed: bool) -> Iterator[tuple[Path, str]]:
    """Arguments that name a folder, the same one for any point of the same values."""
    named: list[tuple[str | int, Any, Any]] = []
    if isinstance(arguments, dict):
        named = [(name, name, value) for name, value in arguments.items()]
    elif isinstance(arguments, list):  # --output_dir=/fsx/out, or two items
        texts = [str(one).partition("=") for one in arguments]
        named = [
            (index, name, value) if sign else (index + 1, name, after)
            for index, ((name, sign, value), after) in enumerate(
                zip(texts, [*arguments[1:], None], strict=True)
            )
        ]
    for step, name, value in named:
        word = str(name).lstrip("-").replace("-", "_").rpartition(".")[2]
        is_folder = word in _WRITTEN and isinstance(value, str) and is_absolute(value)
        if is_folder and is_shared(value, packed=packed):
            yield ("args", step), value
