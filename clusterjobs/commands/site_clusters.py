"""The clusters that site folders add by name: `clusters/NAME.yaml`.

It knows files and names; it must not read the configs.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from clusterjobs.cluster.find import ENDINGS
from clusterjobs.commands.site_folders import (
    CLUSTERS,
    SiteFolders,
    is_file,
    not_writable_by_all,
    unreadable,
)
from clusterjobs.errors import InputError, Location, Problem


class SiteCluster(NamedTuple):
    """A cluster's config, and the files of the same name in folders of lower precedence."""

    file: pathlib.Path
    shadowed: tuple[pathlib.Path, ...] = ()


def site_clusters(site: SiteFolders) -> dict[str, SiteCluster]:
    """The clusters of the site folders by name. Raises InputError."""
    found: dict[str, SiteCluster] = {}
    for folder in site.subfolders(CLUSTERS):
        for name, file in _clusters_in(folder).items():
            above = found.get(name)
            shadowed = (*above.shadowed, file) if above else ()
            found[name] = SiteCluster(above.file if above else file, shadowed)
    return dict(sorted(found.items()))


def cluster_files(site: SiteFolders) -> dict[str, pathlib.Path]:
    """The config of each cluster of the site folders. Raises InputError."""
    return {name: one.file for name, one in site_clusters(site).items()}


def _clusters_in(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    try:
        named = sorted(path for path in folder.iterdir() if path.suffix in ENDINGS)
    except OSError as error:
        raise unreadable(folder, error) from None
    files = map(not_writable_by_all, filter(is_file, named))  # reading a pipe would wait for ever
    found: dict[str, pathlib.Path] = {}
    problems = []
    for file in files:
        if other := found.get(file.stem):
            what = f"two files give the cluster {file.stem}: {other.name} and {file.name}"
            where = Location(str(file), 1, 1)
            problems.append(Problem(what, where, hint="rename one of the two files"))
        found[file.stem] = file
    if problems:
        raise InputError(problems)
    return found
