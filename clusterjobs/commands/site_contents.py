"""What the site folders provide: values, defaults, policies, clusters, templates and tests.

Each kind of content is a function of `_KINDS`, which reads one folder.
"""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from clusterjobs.cluster.find import cluster_names, find_cluster
from clusterjobs.commands import site_folders
from clusterjobs.commands.configs import read_cluster_file
from clusterjobs.commands.files import read_text
from clusterjobs.commands.policies import site_rules
from clusterjobs.commands.site_clusters import cluster_files, site_clusters
from clusterjobs.commands.site_folders import (
    CLUSTERS,
    DEFAULTS_FILE,
    POLICY_FILE,
    SITE_FILE,
    TEMPLATES,
    TESTS,
    VARIABLE,
    SiteFolders,
    find_site_folders,
    is_folder,
    unreadable,
    user_folder,
)
from clusterjobs.errors import InputError, Problem, in_order
from clusterjobs.frameworks import option_models
from clusterjobs.spec.check_defaults import value_problems
from clusterjobs.spec.defaults import load_defaults
from clusterjobs.spec.site import load_site
from clusterjobs.spec.site_prices import load_site_prices
from clusterjobs.yaml.document import dotted


class Row(NamedTuple):
    """A file or folder of a site folder, and the names of what it provides."""

    name: str
    provides: tuple[str, ...]

    def shown(self) -> str:
        """The names on one line."""
        return ", ".join(self.provides) or "nothing"


class FolderContents(NamedTuple):
    """One site folder. `found_by`: the variable, the user or the system."""

    path: pathlib.Path
    found_by: str
    exists: bool
    rows: tuple[Row, ...] = ()

    def data(self) -> dict[str, Any]:
        """The same as data. Names and structure are stable across versions."""
        provides = {row.name.rstrip("/"): list(row.provides) for row in self.rows}
        return {
            "folder": str(self.path),
            "found_by": self.found_by,
            "exists": self.exists,
            **provides,
        }


def site_contents() -> tuple[list[FolderContents], list[Problem]]:
    """The three possible folders, the highest precedence first, and the problems in them."""
    site, problems = find_site_folders(), list[Problem]()
    found: list[FolderContents] = []
    for path, found_by in _possible():
        if path not in site.folders:
            found.append(FolderContents(path, found_by, exists=False))
            continue
        rows = [row for kind in _KINDS for row in _caught(kind, path, site, problems)]
        found.append(FolderContents(path, found_by, exists=True, rows=tuple(rows)))
    return found, in_order(problems)


def _possible() -> Iterator[tuple[pathlib.Path, str]]:
    if named := os.environ.get(VARIABLE):
        yield pathlib.Path(named), f"${VARIABLE}"
    if own := user_folder():
        yield own, "the user's own"
    yield site_folders.SYSTEM_FOLDER, "the system's"


_Kind = Callable[[pathlib.Path, SiteFolders, list[Problem]], Iterator[Row]]


def _caught(
    kind: _Kind, folder: pathlib.Path, site: SiteFolders, problems: list[Problem]
) -> list[Row]:
    try:
        return list(kind(folder, site, problems))
    except InputError as error:
        problems += error.problems
        return []


def _values(folder: pathlib.Path, _site: SiteFolders, _problems: list[Problem]) -> Iterator[Row]:
    for file in SiteFolders((folder,)).files(SITE_FILE):
        text = read_text(file)
        load_site_prices([(str(file), text)])
        yield Row(SITE_FILE, tuple(load_site([(str(file), text)])))


def _defaults(folder: pathlib.Path, site: SiteFolders, problems: list[Problem]) -> Iterator[Row]:
    for file in SiteFolders((folder,)).files(DEFAULTS_FILE):
        named: dict[str, pathlib.Path] = {}
        with contextlib.suppress(InputError):  # reported for the folder that has the clusters
            named = cluster_files(site)
        models = option_models()
        defaults = load_defaults(read_text(file), str(file), cluster_names(named), models)
        problems += value_problems(defaults, models)
        for cluster in defaults.clusters():
            problems += defaults.unknown_queues(cluster, _queues_of(cluster, named))
        paths = ((*one.base, key) for one in defaults.sections() for key in one.value)
        yield Row(DEFAULTS_FILE, tuple(map(dotted, paths)))


def _queues_of(cluster: str, named: dict[str, pathlib.Path]) -> tuple[str, ...]:
    """The queues of a cluster; none if its config cannot be read, which a spec's plan reports."""
    try:
        facts = read_cluster_file(find_cluster(cluster, pathlib.Path(), site=named)).facts
    except InputError:
        return ()
    return tuple(one.name for one in facts.partitions if one.name)


def _policy(folder: pathlib.Path, _site: SiteFolders, _problems: list[Problem]) -> Iterator[Row]:
    own = SiteFolders((folder,))
    if own.files(POLICY_FILE):
        yield Row(POLICY_FILE, tuple(one.rule.name for one in site_rules(own)))


def _clusters(folder: pathlib.Path, site: SiteFolders, _problems: list[Problem]) -> Iterator[Row]:
    own, used = site_clusters(SiteFolders((folder,))), site_clusters(site)
    names = [_cluster_name(name, one.file, used[name].file) for name, one in own.items()]
    if own or is_folder(folder / CLUSTERS):
        yield Row(f"{CLUSTERS}/", tuple(names))


def _cluster_name(name: str, file: pathlib.Path, used: pathlib.Path) -> str:
    return name if file == used else f"{name} (not used: {used} has the same name)"


def _templates(folder: pathlib.Path, _site: SiteFolders, _problems: list[Problem]) -> Iterator[Row]:
    yield from _names_below(folder, TEMPLATES, (".j2", ".sh"))


def _tests(folder: pathlib.Path, _site: SiteFolders, _problems: list[Problem]) -> Iterator[Row]:
    yield from _names_below(folder, TESTS, (".yaml", ".yml"))


def _names_below(folder: pathlib.Path, name: str, endings: tuple[str, ...]) -> Iterator[Row]:
    for below in SiteFolders((folder,)).subfolders(name):
        try:
            paths = sorted(path for path in below.rglob("*") if path.suffix in endings)
        except OSError as error:
            raise unreadable(below, error) from None
        yield Row(f"{name}/", tuple(path.relative_to(below).as_posix() for path in paths))


_KINDS: tuple[_Kind, ...] = (_values, _defaults, _policy, _clusters, _templates, _tests)
