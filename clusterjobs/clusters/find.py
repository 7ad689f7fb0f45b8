"""Finds the file for a spec's `cluster:`.

This module knows folders and names; it must not read the files.
"""

from __future__ import annotations

import functools
import pathlib
from collections.abc import Mapping, Sequence

from clusterjobs import resources
from clusterjobs.errors import Location, did_you_mean, one_problem

ENDINGS = (".yaml", ".yml")


def find_cluster(
    name_or_path: str,
    relative_to: pathlib.Path,
    where: Location | None = None,
    site: Mapping[str, pathlib.Path] | None = None,
) -> pathlib.Path:
    """A config by its name, or a path relative to `relative_to`.

    `site`: the site's own configs by name, which precede the ready ones. Raises InputError at
    `where`, with the nearest known name as a hint.
    """
    names = cluster_names(site)
    if is_path(name_or_path):
        return _existing(relative_to / name_or_path, name_or_path, where, names)
    if site and name_or_path in site:
        return site[name_or_path]
    if name_or_path in names:
        return resources.cluster_configs_dir() / f"{name_or_path}.yaml"
    raise one_problem(
        f"there is no cluster config {name_or_path!r}",
        where,
        "cluster",
        hint=f"{did_you_mean(name_or_path, names)}; or write a path, ./my-cluster.yaml",
    )


def is_path(name_or_path: str) -> bool:
    """Whether it is a path, not the name of a config."""
    return "/" in name_or_path or name_or_path.endswith(ENDINGS)


def short_name(file: str) -> str:
    """The name of a ready config, else the file's path."""
    path = pathlib.Path(file)
    is_ready = path.resolve().parent == resources.cluster_configs_dir().resolve()
    return path.stem if is_ready else file


def cluster_names(site: Mapping[str, pathlib.Path] | None = None) -> tuple[str, ...]:
    """The names of the ready configs and of the site's own, in alphabetical order."""
    return tuple(sorted({*_ready_names(resources.cluster_configs_dir()), *(site or ())}))


@functools.cache  # the folder is part of the package
def _ready_names(folder: pathlib.Path) -> frozenset[str]:
    return frozenset(path.stem for path in folder.glob("*.yaml"))


def _existing(
    path: pathlib.Path, written: str, where: Location | None, names: Sequence[str]
) -> pathlib.Path:
    try:
        is_file = path.is_file()
    except OSError as error:  # a name that is too long
        raise one_problem(
            f"there can be no such file: {error.strerror}", where, "cluster", hint="shorten it"
        ) from None
    if is_file and path.suffix in ENDINGS:
        return path
    if is_file:
        what = f"{written} does not end in .yaml or .yml"
        hint = "is it a cluster's config? rename it to NAME.yaml"
    else:
        what = f"there is no file {written}"
        hint = f"looked at {path}; or write a name: {', '.join(names)}"
    raise one_problem(what, where, "cluster", hint=hint)
