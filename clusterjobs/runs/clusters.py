"""Finds and reads the file of a cluster that is named on the command line.

It is a ParallelCluster config, with the site's values, or a description of a Slurm cluster.
"""

from __future__ import annotations

import pathlib
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.clusters.parallelcluster.config import Cluster
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.site_values import substitute, unresolved_problems
from clusterjobs.clusters.parallelcluster.source import ConfigSource, read_cluster
from clusterjobs.clusters.source import (
    IMPORT_HINT,
    ClusterSource,
    cluster_names,
    find_cluster,
    find_kind,
    find_slurm_lines,
    is_description,
    is_path,
    short_name,
)
from clusterjobs.errors import InputError, Problem, in_order, one_problem
from clusterjobs.sites.folders import (
    STDIN,
    find_site_folders,
    load_site,
    read_sites,
    read_text,
    shown_name,
    shown_path,
    site_files,
)
from clusterjobs.yaml.document import Document, Path, dotted, look_at
from clusterjobs.yaml.syntax import location_at

if TYPE_CHECKING:
    from clusterjobs.clusters.described.description import Description
    from clusterjobs.clusters.described.source import DescriptionSource


# ------------------------------------------------------------------ cluster sources
# Chooses how a file that describes a cluster is read, by its content.


def cluster_source(
    text: str,
    file: str,
    site: Mapping[str, object],
    site_files: Sequence[str] = (),
    is_own: bool = True,
) -> ClusterSource:
    """A ParallelCluster config with the site's values, or a description of a Slurm cluster.

    `is_own`: the file is the user's own, not a ready one. Raises InputError with its problems.
    """
    if is_description(text):
        return described_source(text, file)
    return ConfigSource(text, file, site, site_files, is_own)


def described_source(text: str, file: str) -> DescriptionSource:
    """A description of a Slurm cluster. Raises InputError with its problems.

    Its lines of bash are checked as those of a spec are.
    """
    from clusterjobs.clusters.described.source import DescriptionSource  # others need not load it
    from clusterjobs.script.shell_check import CODE_HINT, bash_complaint

    source = DescriptionSource(text, file)
    found, document = source.description, source.document
    code: dict[Path, tuple[str, ...]] = {("setup",): found.setup}
    code |= {("node_types", name, "setup"): one.setup for name, one in found.node_types.items()}
    problems = [
        Problem(f"bash cannot read it: {said}", document.locate(path), dotted(path), CODE_HINT)
        for path, lines in code.items()
        if lines and (said := bash_complaint("\n".join(lines)))
    ]
    if problems:
        raise InputError(in_order(problems))
    return source


class Config(NamedTuple):
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


class Described(NamedTuple):
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
    path, named = pathlib.Path(name_or_path), find_site_folders().cluster_files
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
    problems = unresolved_problems(document, substitution, values, tuple(map(str, searched)))
    data = look_at(_with_written(substitution.value, document.value), cluster.path)
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


_DIRECTIVE = re.compile(r"(?m)^#SBATCH.*$")
_SHEBANG = re.compile(r"#!.*sh\b.*")
_PYTHON = re.compile(r"(?m)^(?:import|from) [A-Za-z_].*$")


def refuse_other_files(text: str, file: str, wanted: str = "a spec") -> None:
    """Raise InputError if the file is of another kind that clusterjobs knows."""
    for kind, (find, hint) in _KINDS.items():
        if found := find(text):
            if kind == wanted:
                return
            group = 1 if found.re.groups else 0
            where = location_at(text, file, found.start(group), len(found[group]))
            name = "-" if file == shown_name(STDIN) else shlex.quote(short_name(file))
            raise one_problem(f"{kind}, not {wanted}", where, hint=hint.format(name))


def _find_script(text: str) -> re.Match[str] | None:
    directive = _DIRECTIVE.search(text)
    if directive and (text.startswith("#!") or not _KEYS_OF_A_SPEC.search(text)):
        return directive
    return _SHEBANG.match(text)


def _find_config(text: str) -> re.Match[str] | None:
    return None if _KEYS_OF_A_SPEC.search(text) else _KEYS_OF_A_CONFIG.search(text)


_CLUSTER_HINT = "name it in a spec, `cluster: {0}`, or see clusterjobs clusters show {0}"
# The first that fits, and what can be done with it.
_KINDS: dict[str, tuple[Callable[[str], re.Match[str] | None], str]] = {
    "an sbatch script": (_find_script, "clusterjobs import {} writes a spec from it"),
    "a Python program": (_PYTHON.search, "clusterjobs init --script {} writes a spec for it"),
    "a file of Slurm": (find_slurm_lines, IMPORT_HINT),
    "a description of a Slurm cluster": (find_kind, _CLUSTER_HINT),
    "a ParallelCluster config": (_find_config, _CLUSTER_HINT),
    "a spec": (_KEYS_OF_A_SPEC.search, "clusterjobs render {} makes its script"),
}


def is_spec(text: str) -> bool:
    """Whether a file is meant to be a spec. Decided by its keys, since it may not be valid YAML."""
    other = _KEYS_OF_A_CONFIG.search(text) or is_description(text)
    return bool(_KEYS_OF_A_SPEC.search(text)) and not other


# ------------------------------------------------------------------ named clusters
# The clusters that a spec can name: the ready configs, and those of the site folders.


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
        """The origin as data."""
        hidden = [str(file) for file in self.hidden]
        return {"ready": self.is_ready, "hides": hidden, "hides_ready": self.hides_ready}


def named_clusters() -> tuple[list[NamedCluster], list[Problem]]:
    """All of them by name, and the problems of those that cannot be read."""
    own, ready = find_site_folders().clusters, cluster_names()
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
