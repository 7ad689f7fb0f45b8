"""A source of cluster facts: what it reads, and which files it writes for a job.

Only `runs/` and the commands use sources, through this protocol.
"""

import contextlib
import functools
import pathlib
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from clusterjobs import resources
from clusterjobs.clusters.facts import BucketLink, ClusterFacts
from clusterjobs.errors import Location, Problem, did_you_mean, nearest, one_problem

# ------------------------------------------------------------------ slurm nodes
# The nodes and partitions in Slurm's own configuration, for a lab that imitates the cluster.


@dataclass(frozen=True)
class SlurmNodes:
    """Identical nodes: one `NodeName=` line of slurm.conf.

    `real_memory` is in MiB (Slurm's RealMemory), `gres` is "" without GPUs, else `gpu:a100:8`.
    `static`: the nodes always run. `scratch`: the folder on their own disk; "" if unknown.
    """

    prefix: str  # "train-dy-p4d-": the node names are prefix + 1 .. prefix + count
    count: int
    cpus: int
    real_memory: int
    gres: str
    features: tuple[str, ...]
    weight: int
    static: bool
    threads_per_core: int = 1
    scratch: str = ""

    @property
    def hostlist(self) -> str:
        return f"{self.prefix}[1-{self.count}]" if self.count > 1 else f"{self.prefix}1"

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(f"{self.prefix}{number}" for number in range(1, self.count + 1))


class SlurmPartition(NamedTuple):
    """A partition. `exclusive`: `OverSubscribe=EXCLUSIVE`; `max_time` in seconds.

    Groups of one prefix are the same nodes, of which each partition has the first ones.
    `max_nodes`: the most that one job may have.
    """

    name: str
    groups: tuple[SlurmNodes, ...]
    exclusive: bool
    default: bool
    max_time: int | None = None
    max_nodes: int | None = None


class SlurmShape(NamedTuple):
    """A cluster as its Slurm has it. `shared`: the folders that all nodes share.

    `commands`: the folder of srun and the others on the nodes; "" if they are on every user's PATH.
    `memory_scheduling`: Slurm divides the nodes' memory. `size_setting`: what limits the nodes of a
    queue, in the source's own term. `address_suffix`: added to a node's name, it gives the node's
    address in the fast network.
    """

    name: str
    partitions: tuple[SlurmPartition, ...]
    shared: tuple[str, ...] = ()
    memory_scheduling: bool = False
    slurm_version: str | None = None
    commands: str = ""
    size_setting: str = "nodes"
    address_suffix: str = ""


class ClusterFiles(Protocol):
    """The files that a source has written for a job, and the problems it found."""

    @property
    def files(self) -> Mapping[str, str]:
        """File name -> text, beside the job script: `cluster.yaml`."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems with the cluster for this job; an error stops the render."""

    def notice(self, folder: pathlib.Path) -> str:
        """What the user has to change in the cluster before the job starts; "" if nothing.

        `folder` is the folder of the files.
        """


class ClusterSource(Protocol):
    """The description of one cluster."""

    facts: ClusterFacts

    def shape(self) -> SlurmShape:
        """The cluster as a lab imitates it. Raises InputError if what that needs is unknown."""

    def fit(self, links: Sequence[BucketLink] = ()) -> ClusterFiles:
        """The files for a job that needs these links. Raises InputError if that is impossible."""


# ------------------------------------------------------------------ kinds of files
# Detects, by its text, whether a file is a description of a Slurm cluster, or a file of Slurm.


_KIND = re.compile(r"""^(?:\{[ \t]*)?["']?(kind)["']?[ \t]*:[ \t]*["']?slurm\b""", re.MULTILINE)
_ANY_KIND = re.compile(r"""^(?:\{[ \t]*)?["']?kind["']?[ \t]*:""", re.MULTILINE)
_SECTION = re.compile(r"^(?:node_types|partitions)[ \t]*:", re.MULTILINE)
_OTHER = re.compile(r"^(?:[ \t]*(?:Scheduling|SlurmQueues)|framework|cluster)[ \t]*:", re.MULTILINE)


def find_kind(text: str) -> re.Match[str] | None:
    """The match of `kind: slurm` at the top level of a file; group 1 is the key."""
    return _KIND.search(text.removeprefix("\ufeff"))


@functools.lru_cache(maxsize=16)  # many specs name the same clusters
def is_description(text: str) -> bool:
    """Whether it is meant to be one: by `kind: slurm`, or by sections that no other file has."""
    if find_kind(text):
        return True
    sections = _SECTION.search(text) or _ANY_KIND.search(text.removeprefix("\ufeff"))
    return bool(sections) and not _OTHER.search(text)


_OF_SLURM = re.compile(
    r"^((?:NodeName|PartitionName|ClusterName|SlurmctldHost)[ \t]*=.*|Configuration data as of.*)$",
    re.MULTILINE | re.IGNORECASE,
)
_MOST = 1 << 16  # characters of a file that are searched


def find_slurm_lines(text: str) -> re.Match[str] | None:
    """The first line of a slurm.conf, or of what scontrol shows; it is group 1."""
    return _OF_SLURM.search(text[:_MOST])


# What to do with a file of Slurm.
IMPORT_HINT = "clusterjobs clusters import --from-files {} > mycluster.yaml"


# ------------------------------------------------------------------ find
# Finds the file for a spec's `cluster:`.


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
    _refuse_slurm(relative_to / name_or_path, name_or_path, where)
    hint = f"{did_you_mean(name_or_path, names)}; or write a path, ./my-cluster.yaml"
    if not (site or nearest(name_or_path, names)):
        hint += "; names of your site need its folder, CLUSTERJOBS_SITE=FOLDER"
    raise one_problem(
        f"there is no cluster config {name_or_path!r}",
        where,
        "cluster",
        hint=hint,
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
        _refuse_slurm(path, written, where)
        what = f"{written} does not end in .yaml or .yml"
        hint = "is it a cluster's config? rename it to NAME.yaml"
    else:
        what = f"there is no file {written}"
        hint = f"looked at {path}; or write a name: {', '.join(names)}"
    raise one_problem(what, where, "cluster", hint=hint)


def _refuse_slurm(path: pathlib.Path, written: str, where: Location | None) -> None:
    text = ""
    with contextlib.suppress(OSError, ValueError):  # there is no such file, or there can be none
        if path.is_file():
            with path.open(encoding="utf-8", errors="replace") as file:
                text = file.read(_MOST)
    if find_slurm_lines(text):
        what = f"{written} is a file of Slurm, not a cluster's config"
        hint = f"{IMPORT_HINT.format(shlex.quote(str(path)))}, and cluster: ./mycluster.yaml"
        raise one_problem(what, where, "cluster", hint=hint)
