"""A ParallelCluster config as the source of a cluster's facts, and of `cluster.yaml`."""

import functools
import pathlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from clusterjobs.clusters.facts import BucketLink
from clusterjobs.clusters.parallelcluster.config import (
    Cluster,
    ComputeResource,
    Mount,
    Queue,
    S3Access,
    is_newer,
    release_of,
    slurm_version,
)
from clusterjobs.clusters.parallelcluster.detect import (
    at,
    find_config,
    items,
    load_config,
    number,
    placeholder,
    text,
    truth,
    unfilled,
)
from clusterjobs.clusters.parallelcluster.facts import cluster_facts, slurm_shape
from clusterjobs.clusters.parallelcluster.render_config import (
    FitChange,
    Fitted,
    UnwritableError,
    fit,
)
from clusterjobs.clusters.parallelcluster.site_values import (
    MissingValuesError,
    how_to_give,
    missing_values,
    not_given,
    substitute,
)
from clusterjobs.clusters.source import SlurmShape
from clusterjobs.errors import InputError, Problem
from clusterjobs.slurm.options import seconds_of
from clusterjobs.yaml.document import Document, Path, dotted

# ------------------------------------------------------------------ read
# Reads any ParallelCluster 3 config, leniently.
# Real configs have placeholders and old values: a value that cannot be read is unknown, not an
# error. Only a file that is not a ParallelCluster config is refused.


# pcluster/constants.py of ParallelCluster 3.16.1
DEFAULT_MIN_COUNT = 0
DEFAULT_MAX_COUNT = 10
DEFAULT_SCRATCH_DIR = "/scratch"


def read_cluster(source: str, file: str, site: Mapping[str, object]) -> tuple[Cluster, Document]:
    """The facts of a config, and its document for the positions of its values.

    `site`: the values of `{{ site.x }}`; without one, the value is unknown. Raises InputError if
    the text is not YAML, or not a ParallelCluster 3 config.
    """
    document = load_config(source, file)
    path = find_config(document)
    data = substitute(document, site).value
    for key in path:
        data = data[key]
    release = release_of(site)
    cluster = _cluster(data, file, path)._replace(
        slurm_version=slurm_version(site), newer_release=release if is_newer(release) else ""
    )
    return cluster, document


def _cluster(data: dict[str, Any], file: str, path: Path) -> Cluster:
    custom_ami = text(at(data, "Image", "CustomAmi"))
    mounts = [_mount(entry, place) for entry, place in _entries(data, path, "SharedStorage")]
    queues = _entries(at(data, "Scheduling"), (*path, "Scheduling"), "SlurmQueues")
    return Cluster(
        name=pathlib.PurePath(file).stem,
        file=file,
        region=text(at(data, "Region")),
        os=text(at(data, "Image", "Os")),
        memory_scheduling=bool(truth(at(data, *_MEMORY_SCHEDULING))),
        queues=tuple(_queue(entry, place, custom_ami) for entry, place in queues),
        mounts=tuple(mount for mount in mounts if mount),
        mounts_complete=None not in mounts,
        custom_ami=custom_ami,
        path=path,
    )


_MEMORY_SCHEDULING = ("Scheduling", "SlurmSettings", "EnableMemoryBasedScheduling")
_SCRATCH_DIR = ("ComputeSettings", "LocalStorage", "EphemeralVolume", "MountDir")


def _entries(data: Any, path: Path, key: str) -> list[tuple[dict[str, Any], Path]]:
    """The mappings in the list under `key`, each with its path."""
    return [
        (entry, (*path, key, index))
        for index, entry in enumerate(items(at(data, key)))
        if isinstance(entry, dict)
    ]


def _queue(data: dict[str, Any], path: Path, custom_ami: str | None) -> Queue:
    resources = _entries(data, path, "ComputeResources")
    subnets = [text(subnet) for subnet in items(at(data, "Networking", "SubnetIds"))]
    return Queue(
        name=text(at(data, "Name")) or "",
        compute_resources=tuple(_compute_resource(entry, place) for entry, place in resources),
        capacity_type=(text(at(data, "CapacityType")) or "ONDEMAND").upper(),
        subnet_ids=tuple(subnet for subnet in subnets if subnet),
        job_exclusive=bool(truth(at(data, "JobExclusiveAllocation"))),
        scratch_dir=text(at(data, *_SCRATCH_DIR)) or DEFAULT_SCRATCH_DIR,
        path=path,
        custom_ami=text(at(data, "Image", "CustomAmi")) or custom_ami,
        s3_access=_s3_access(data.get("Iam")),
        max_time=_max_time(at(data, "CustomSlurmSettings")),
        placeholder=placeholder(at(data, "Name")),
    )


def _max_time(settings: Any) -> int | None:
    """A queue's MaxTime. Slurm ignores the case of keys (slurm.conf(5)); 0 would allow no job."""
    values = settings.items() if isinstance(settings, dict) else ()
    written = next((text(value) for key, value in values if key.lower() == "maxtime"), None)
    return seconds_of(written) or None if written else None


_WITHOUT_S3 = ("AmazonSSMManagedInstanceCore",)  # AWS's, without access to buckets


def _s3_access(iam: Any) -> tuple[S3Access, ...] | None:
    """The buckets that the nodes may use; None if they may use more, or if one is a placeholder.

    An entry allows the whole bucket, or with a KeyName only the objects of that name
    (S3Access.resource_regex of ParallelCluster 3.16).
    """
    policies = [
        text(at(policy, "Policy")) or "" for policy in items(at(iam, "AdditionalIamPolicies"))
    ]
    rules, known = at(iam, "S3Access"), isinstance(iam, (dict, type(None)))
    elsewhere = at(iam, "InstanceRole") or at(iam, "InstanceProfile")
    if not known or elsewhere or not all(policy.endswith(_WITHOUT_S3) for policy in policies):
        return None
    found = [(text(at(rule, "BucketName")), rule) for rule in items(rules)]
    if not isinstance(rules, (list, type(None))) or any(bucket is None for bucket, _ in found):
        return None
    return tuple(
        S3Access(
            bucket or "",
            at(rule, "KeyName") is not None,
            truth(rule.get("EnableWriteAccess", False)) is not False,
        )
        for bucket, rule in found
    )


def _compute_resource(data: dict[str, Any], path: Path) -> ComputeResource:
    single = at(data, "InstanceType")
    several = [at(entry, "InstanceType") for entry in items(at(data, "Instances"))]
    return ComputeResource(
        name=text(at(data, "Name")) or "",
        instance_types=tuple(known for kind in [*several, single] if (known := text(kind))),
        min_count=_count(data, "MinCount", DEFAULT_MIN_COUNT) or 0,
        max_count=_count(data, "MaxCount", DEFAULT_MAX_COUNT),
        efa=bool(truth(at(data, "Efa", "Enabled"))),
        disable_smt=bool(truth(at(data, "DisableSimultaneousMultithreading"))),
        schedulable_memory_mib=number(at(data, "SchedulableMemory")),
        path=path,
        static_weight=number(at(data, "StaticNodePriority")) or 1,
        dynamic_weight=number(at(data, "DynamicNodePriority")) or 1000,
        placeholder=next(filter(None, map(placeholder, [*several, single])), ""),
    )


def _count(data: dict[str, Any], key: str, default: int) -> int | None:
    """The default only if the key is missing: a placeholder can be any number."""
    return number(data[key]) if key in data else default


def _mount(data: dict[str, Any], path: Path) -> Mount | None:
    """The mounted folder; None if unknown. ParallelCluster mounts a relative one below /."""
    directory = text(at(data, "MountDir"))
    if directory is None:
        return None
    return Mount(
        directory="/" + directory.strip("/"),
        name=text(at(data, "Name")) or "",
        storage_type=text(at(data, "StorageType")) or "",
        path=path,
        capacity_gib=number(at(data, "FsxLustreSettings", "StorageCapacity")),
        throughput_per_tib=number(at(data, "FsxLustreSettings", "PerUnitStorageThroughput")),
    )


FILE = "cluster.yaml"


class ConfigFiles(NamedTuple):
    """`cluster.yaml`, and its changes for the job.

    `data` is its content; None if it is not written, because values of the site are missing.
    """

    files: Mapping[str, str]
    data: dict[str, Any] | None
    problems: tuple[Problem, ...]
    changes: tuple[FitChange, ...]
    config: str
    is_own: bool

    def notice(self, folder: pathlib.Path) -> str:
        """Which entries were added, and how to update the cluster.

        ParallelCluster adds and removes the associations of a running cluster by name
        (update_policy of DataRepositoryAssociations in its schema, 3.16): an update with another
        spec's cluster.yaml would remove these.
        """
        if not self.changes:
            return ""
        path, copy = folder / FILE, f"a copy of {self.config}, and let `cluster:` name that copy"
        return "\n".join(
            [
                f"{path} has more than {self.config}:",
                *(f"  {change}" for change in self.changes),
                "The cluster needs it before the job starts. Make it from this file, or update it:",
                "  pcluster update-cluster --cluster-name NAME --cluster-configuration "
                f"{shlex.quote(str(path))}",
                "Other specs do not know of it: an update with the cluster.yaml of one of them "
                "removes it again.",
                "To keep it, put what stands there below `Added by clusterjobs` into "
                f"{self.config if self.is_own else copy}.",
            ]
        )


class ConfigSource:
    """A config and the site's values. `is_own`: it is the user's own, not a ready one."""

    def __init__(
        self,
        text: str,
        file: str,
        site: Mapping[str, object],
        site_files: Sequence[str] = (),
        is_own: bool = True,
    ) -> None:
        """Raises InputError if the text is not a ParallelCluster config."""
        self._config = _read(text, file, _Site(site))
        self.cluster, self.document = self._config.cluster, self._config.document
        self.facts = self._config.facts
        self._site, self._site_files, self._is_own = site, site_files, is_own
        self.release = release_of(site)

    def shape(self) -> SlurmShape:
        """The cluster as its Slurm has it. Raises InputError with everything that is unknown."""
        return slurm_shape(self.cluster, self.document)

    def fit(self, links: Sequence[BucketLink] = ()) -> ConfigFiles:
        """The config as a job needs it.

        Raises InputError, for missing site values only if the config must be changed for the job.
        """
        file = self.document.file
        try:
            text, data, changes, problems = self._fit(links)
        except (MissingValuesError, UnwritableError) as error:
            (problem,) = error.problems
            if links:
                raise InputError([_needed(links[0], problem)]) from None
            why, hint = problem.what, problem.hint
            if isinstance(error, MissingValuesError):
                names = missing_values(substitute(self.document, self._site))
                why, hint = not_given(names), how_to_give(file)
            what = f"{FILE} is not written (the job runs without it): {why}"
            about = Problem(what, hint=hint, warning=True, info=True)
            return ConfigFiles({}, None, (about,), (), file, self._is_own)
        return ConfigFiles({FILE: text}, data, problems, changes, file, self._is_own)

    def _unfilled(self, data: dict[str, Any]) -> tuple[Problem, ...]:
        """A notice for placeholders that are written to cluster.yaml as they are."""
        paths = dict(unfilled(data))
        if not paths:
            return ()
        (path, written), *others = paths.items()
        more = f", and {len(others)} more" if others else ""
        what = f"{FILE} has {written}{more} as it is: nobody filled it in"
        hint = "fill it in before you make a cluster of the file; the job runs without it"
        where = self.document.locate(path)
        return (Problem(what, where, dotted(path), hint, warning=True, info=True),)

    def _fit(self, links: Sequence[BucketLink]) -> Fitted:
        """Most jobs want no links, so their cluster.yaml is the same."""
        if not links and self._config.fitted:
            return self._config.fitted
        fitted = fit(self.document, self._site, self._site_files, links)
        problems = (*fitted.problems, *self._unfilled(fitted.data))
        fitted = fitted._replace(problems=problems)
        if not links:
            self._config.fitted = fitted
        return fitted


class _Site:
    """A site's values, which are a key of a cache."""

    def __init__(self, values: Mapping[str, object]) -> None:
        self.values = values
        self._key = repr(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Site) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class _Config:
    """A config that was read, and its text for jobs without links if that was made."""

    def __init__(self, text: str, file: str, site: _Site) -> None:
        self.cluster, self.document = read_cluster(text, file, site.values)
        self.facts = cluster_facts(self.cluster)
        self.fitted: Fitted | None = None


# Many specs share a config, and reading it takes longer than the rest of a render.
_read = functools.lru_cache(maxsize=64)(_Config)


def _needed(link: BucketLink, problem: Problem) -> Problem:
    """Why a job with this link cannot do without cluster.yaml."""
    what = f"{link.folder} needs an association with {link.bucket_path} in {FILE}, which cannot be "
    what += f"written: {problem.what}"
    return Problem(what, link.where, hint=f"{problem.hint}; or copy the data: via: copy")
