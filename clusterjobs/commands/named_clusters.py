"""The clusters that a spec can name: the ready configs, and those of the site folders."""

from __future__ import annotations

import pathlib
from typing import Any, NamedTuple

from clusterjobs.cluster.find import cluster_names, find_cluster
from clusterjobs.commands.configs import AnyCluster, read_cluster_file
from clusterjobs.commands.site_clusters import site_clusters
from clusterjobs.commands.site_folders import find_site_folders
from clusterjobs.errors import InputError, Problem


class NamedCluster(NamedTuple):
    """A cluster with its name. `hidden`: files of the same name in folders of lower precedence."""

    name: str
    config: AnyCluster
    is_ready: bool
    hidden: tuple[pathlib.Path, ...]
    hides_ready: bool

    @property
    def shown_origin(self) -> str:
        """Where it comes from, and what it hides."""
        origin = "clusterjobs" if self.is_ready else self.config.file
        hidden = [*map(str, self.hidden), *(["clusterjobs' own"] if self.hides_ready else [])]
        return f"{origin} (hides {', '.join(hidden)})" if hidden else origin

    def origin(self) -> dict[str, Any]:
        """The same as data."""
        hidden = [str(file) for file in self.hidden]
        return {"ready": self.is_ready, "hides": hidden, "hides_ready": self.hides_ready}


def named_clusters() -> tuple[list[NamedCluster], list[Problem]]:
    """All of them by name, and the problems of those that cannot be read."""
    own, ready = site_clusters(find_site_folders()), cluster_names()
    files = {name: one.file for name, one in own.items()}
    found: list[NamedCluster] = []
    problems: list[Problem] = []
    for name in cluster_names(files):
        here, is_own = own.get(name), name in own
        hidden, hides_ready = here.shadowed if here else (), is_own and name in ready
        try:
            config = read_cluster_file(find_cluster(name, pathlib.Path(), site=files))
        except InputError as error:
            problems += error.problems
        else:
            found.append(NamedCluster(name, config, not is_own, hidden, hides_ready))
    return found, problems
