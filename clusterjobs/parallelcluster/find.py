"""Finds the config file for a spec's `cluster:`.

This module knows folders and names; it must not read the files.
"""

from __future__ import annotations

import pathlib

from clusterjobs import resources
from clusterjobs.errors import Location, did_you_mean, one_problem

_ENDINGS = (".yaml", ".yml")


def find_cluster(
    name_or_path: str, relative_to: pathlib.Path, where: Location | None = None
) -> pathlib.Path:
    """A ready config by its name, or a path relative to `relative_to`.

    Raises InputError at `where`, with the nearest known name as a hint.
    """
    if is_path(name_or_path):
        return _existing(relative_to / name_or_path, name_or_path, where)
    if name_or_path in cluster_names():
        return resources.cluster_configs_dir() / f"{name_or_path}.yaml"
    raise one_problem(
        f"there is no cluster config {name_or_path!r}",
        where,
        "cluster",
        hint=f"{did_you_mean(name_or_path, cluster_names())}; or write a path, ./my-cluster.yaml",
    )


def is_path(name_or_path: str) -> bool:
    """Whether it is a path, not the name of a ready config."""
    return "/" in name_or_path or name_or_path.endswith(_ENDINGS)


def short_name(file: str) -> str:
    """The name of a ready config, else the file's path."""
    path = pathlib.Path(file)
    is_ready = path.resolve().parent == resources.cluster_configs_dir().resolve()
    return path.stem if is_ready else file


def cluster_names() -> tuple[str, ...]:
    """The names of the ready configs, in alphabetical order."""
    return tuple(sorted(path.stem for path in resources.cluster_configs_dir().glob("*.yaml")))


def _existing(path: pathlib.Path, written: str, where: Location | None) -> pathlib.Path:
    try:
        is_file = path.is_file()
    except OSError as error:  # a name that is too long
        raise one_problem(
            f"there can be no such file: {error.strerror}", where, "cluster", hint="shorten it"
        ) from None
    if is_file and path.suffix in _ENDINGS:
        return path
    if is_file:
        what, hint = f"{written} does not end in .yaml or .yml", "is it a ParallelCluster config?"
    else:
        what = f"there is no file {written}"
        hint = f"looked at {path}; or write a name: {', '.join(cluster_names())}"
    raise one_problem(what, where, "cluster", hint=hint)
