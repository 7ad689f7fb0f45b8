"""Finds and reads the file of a cluster that is named on the command line.

It is a ParallelCluster config, with the site's values, or a description of a Slurm cluster.
"""

from __future__ import annotations

import pathlib
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.cluster.find import cluster_names, find_cluster, is_path, short_name
from clusterjobs.commands.cluster_sources import described_source
from clusterjobs.commands.files import STDIN, read_sites, read_text, shown_path, site_files
from clusterjobs.commands.site_clusters import cluster_files
from clusterjobs.commands.site_folders import find_site_folders
from clusterjobs.errors import Location, Problem, one_problem
from clusterjobs.parallelcluster.config import Cluster
from clusterjobs.parallelcluster.facts import cluster_facts
from clusterjobs.parallelcluster.read import read_cluster
from clusterjobs.parallelcluster.site import substitute, unresolved_problems
from clusterjobs.slurmcluster.detect import find_kind, is_description
from clusterjobs.spec.site import load_site
from clusterjobs.yaml.document import Document
from clusterjobs.yaml.syntax import line_of

if TYPE_CHECKING:
    from clusterjobs.slurmcluster.description import Description


@dataclass(frozen=True)
class Config:
    """A config with its facts. `data` is its plain data with the site's values.

    `unresolved`: the references without a value in site.yaml; they are kept as written.
    """

    cluster: Cluster
    document: Document
    data: dict[str, Any]
    unresolved: tuple[Problem, ...]
    text: str
    site: dict[str, Any]

    @property
    def name(self) -> str:
        return self.cluster.name

    @property
    def file(self) -> str:
        return self.cluster.file

    @property
    def facts(self) -> ClusterFacts:
        """What a plan knows of it."""
        return cluster_facts(self.cluster)


@dataclass(frozen=True)
class Described:
    """A description of a Slurm cluster with its facts."""

    description: Description
    document: Document
    facts: ClusterFacts

    @property
    def name(self) -> str:
        return self.facts.name

    @property
    def file(self) -> str:
        return self.document.file


AnyCluster = Config | Described


def find_config_file(name_or_path: str) -> pathlib.Path:
    """A config by its name, or a file. Raises InputError."""
    path, named = pathlib.Path(name_or_path), cluster_files(find_site_folders())
    is_file = path == STDIN or path.exists() or is_path(name_or_path)
    if name_or_path in cluster_names(named) or not is_file:
        return find_cluster(name_or_path, pathlib.Path(), site=named)
    return path


def read_cluster_file(file: pathlib.Path, site: pathlib.Path | None = None) -> AnyCluster:
    """Read the file of a cluster, by its content. Raises InputError."""
    return cluster_in(read_text(file), file, site)


def cluster_in(text: str, file: pathlib.Path, site: pathlib.Path | None = None) -> AnyCluster:
    """The same for a text; `site` replaces the site.yaml that would be found."""
    if not is_description(text):
        return config_of(text, file, site)
    source = described_source(text, shown_path(file))
    return Described(source.description, source.document, source.facts)


def config_of(text: str, file: pathlib.Path, site: pathlib.Path | None = None) -> Config:
    """A ParallelCluster config, read leniently. Raises InputError if it is none."""
    searched = [site] if site else site_files(file)
    values = load_site([(str(site), read_text(site))] if site else read_sites(searched))
    cluster, document = read_cluster(text, shown_path(file), values)
    substitution = substitute(document, values)
    names = tuple(map(str, searched))
    problems = unresolved_problems(document, substitution, values, names)
    data = _with_written(substitution.value, document.value)
    for step in cluster.path:
        data = data[step]
    return Config(cluster, document, data, tuple(problems), text, values)


def _with_written(value: Any, written: Any) -> Any:
    """The unresolved references, as they are written."""
    if isinstance(value, dict):
        return {key: _with_written(item, written[key]) for key, item in value.items()}
    if isinstance(value, list):
        return [_with_written(item, written[index]) for index, item in enumerate(value)]
    return written if value is None else value


_KEYS_OF_A_SPEC = re.compile(r"(?m)^(name|cluster|framework|nodes|launcher|script)[ \t]*:")
_KEYS_OF_A_CONFIG = re.compile(r"(?m)^[ \t]*(Scheduling|HeadNode|SlurmQueues|Image|Region)[ \t]*:")


def refuse_config(text: str, file: str) -> None:
    """Raise InputError if a file that should be a spec is the file of a cluster."""
    what, found = "a description of a Slurm cluster, not a spec", find_kind(text)
    if found is None:
        what, found = "a ParallelCluster config, not a spec", _KEYS_OF_A_CONFIG.search(text)
        if found is None or _KEYS_OF_A_SPEC.search(text):
            return
    line = text.count("\n", 0, found.start(1))
    column = found.start(1) - text.rfind("\n", 0, found.start(1))
    where = Location(file, line + 1, column, line_of(text, line), len(found[1]))
    name = short_name(file)
    hint = f"name it in a spec, `cluster: {name}`, or see clusterjobs clusters show {name}"
    raise one_problem(what, where, hint=hint)


def is_spec(text: str) -> bool:
    """Whether a file is meant to be a spec. Decided by its keys, since it may not be valid YAML."""
    other = _KEYS_OF_A_CONFIG.search(text) or is_description(text)
    return bool(_KEYS_OF_A_SPEC.search(text)) and not other
