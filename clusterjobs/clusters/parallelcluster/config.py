"""The content of a ParallelCluster config, as data classes.

`read.py` fills them from a config, leniently: None means that the config does not say. They know
no experiments, no files of Slurm, and no AWS account.
"""

import re
from collections.abc import Mapping
from typing import NamedTuple

from clusterjobs.yaml.document import Path


class ComputeResource(NamedTuple):
    """One entry of `ComputeResources`. `path` is its place in the config.

    `max_count`: None if the config has a placeholder, since ParallelCluster's default of 10 would
    be a guess. The weights are Slurm's (`StaticNodePriority`). `placeholder`: the text that was not
    replaced by an instance type.
    """

    name: str
    instance_types: tuple[str, ...]
    min_count: int
    max_count: int | None
    efa: bool
    disable_smt: bool
    schedulable_memory_mib: int | None
    path: Path
    static_weight: int = 1
    dynamic_weight: int = 1000
    placeholder: str = ""


class S3Access(NamedTuple):
    """One entry of `S3Access`. `*` in `bucket` is any text; a `KeyName` does not allow listing."""

    bucket: str
    has_key_name: bool
    writes: bool


class Queue(NamedTuple):
    """One entry of `SlurmQueues`; Slurm's partition of the same name.

    `s3_access`: the buckets that its nodes may read; None if the config does not tell all.
    `scratch_dir`: where local disks are mounted, if the instance type has some. `custom_ami`: the
    queue's own image, else the cluster's. `max_time`: Slurm's MaxTime in seconds.
    """

    name: str
    compute_resources: tuple[ComputeResource, ...]
    capacity_type: str
    subnet_ids: tuple[str, ...]
    job_exclusive: bool
    scratch_dir: str
    path: Path
    custom_ami: str | None = None
    s3_access: tuple[S3Access, ...] | None = None
    max_time: int | None = None
    placeholder: str = ""


class Mount(NamedTuple):
    """One entry of `SharedStorage`: a folder that all nodes share, always an absolute path.

    `capacity_gib` and `throughput_per_tib` (10^6 bytes/s): known only for a file system that the
    config creates.
    """

    directory: str
    name: str
    storage_type: str
    path: Path
    capacity_gib: int | None = None
    throughput_per_tib: int | None = None


class Cluster(NamedTuple):
    """The facts of one config. `name` is the config's file name without its ending.

    `mounts_complete`: False if the folder of a mount is a placeholder: other folders may be shared,
    too. `path`: the config's path in its file, () except inside a CloudFormation template.
    `slurm_version`: that of the site's ParallelCluster; None if it is unknown. `newer_release`: the
    release of the site, if it is newer than CURRENT.
    """

    name: str
    file: str
    region: str | None
    os: str | None
    memory_scheduling: bool
    queues: tuple[Queue, ...]
    mounts: tuple[Mount, ...]
    mounts_complete: bool = True
    custom_ami: str | None = None
    path: Path = ()
    slurm_version: str | None = None
    newer_release: str = ""


# ------------------------------------------------------------------ releases
# Which Slurm a release of ParallelCluster ships: a table.
# A config does not say which release it is for. A site.yaml may: `parallelcluster: 3.13.1`.


# The release whose schema and validators clusterjobs knows.
CURRENT = "3.16.1"

# 3.1 to 3.6, 3.13 and 3.16: the changelog of aws-parallelcluster-cookbook and the release notes of
# aws-parallelcluster. 3.7 to 3.12: mostly a table of aws-eda-slurm-cluster. 3.15: a pull request of
# awsome-distributed-ai. Where they say nothing, a release ships what the release before it did.
# Not found: 3.13.2 and 3.14.
_SLURM: dict[str, str | None] = {
    "3.1.1": "21.08.5",
    "3.1.2": "21.08.6",
    "3.1.3": "21.08.6",
    "3.1.4": "21.08.8",
    "3.1.5": "21.08.8",
    "3.2.0": "21.08.8",
    "3.2.1": "21.08.8",
    "3.3.0": "22.05.5",
    "3.3.1": "22.05.5",
    "3.4.0": "22.05.7",
    "3.4.1": "22.05.7",
    "3.5.0": "22.05.8",
    "3.5.1": "22.05.8",
    "3.6.0": "23.02.2",
    "3.6.1": "23.02.2",
    "3.7.0": "23.02.4",
    "3.7.1": "23.02.5",
    "3.7.2": "23.02.6",
    "3.8.0": "23.02.7",
    "3.9.0": "23.11.4",
    "3.9.1": "23.11.4",
    "3.9.2": "23.11.7",
    "3.9.3": "23.11.7",
    "3.10.0": "23.11.7",
    "3.10.1": "23.11.7",
    "3.11.0": "23.11.10",
    "3.11.1": "23.11.10",
    "3.12.0": "23.11.10",
    "3.13.0": "24.05.7",
    "3.13.1": "24.05.8",
    "3.13.2": None,
    "3.14.0": None,
    "3.14.1": None,
    "3.14.2": None,
    "3.15.0": "25.11.4",
    "3.15.1": "25.11.4",
    "3.16.0": "25.11.6",
    "3.16.1": "25.11.8",
}


RELEASES = tuple(_SLURM)


def last_release(series: str) -> str:
    """Of a series, such as 3.13; "" if it is none."""
    return next((one for one in reversed(RELEASES) if one.rpartition(".")[0] == series), "")


def wrong_release(release: object) -> tuple[str, str] | None:
    """What is wrong with a release, and a hint; None if there is one of this number."""
    if str(release) in RELEASES:
        return None
    listed = ", ".join(RELEASES[RELEASES.index("3.6.1") + 1 :])
    newer = f"if it is newer than {CURRENT}, clusterjobs has to be upgraded first"
    return f"there is no ParallelCluster {release}", f"one of {listed}; {newer}"


def is_newer(release: object) -> bool:
    """Whether it has the number of a release after CURRENT, which may exist by now."""
    found = re.fullmatch(r"(\d{1,3})\.(\d{1,3})\.(\d{1,3})", str(release))
    return found is not None and [*map(int, found.groups())] > [*map(int, CURRENT.split("."))]


def release_of(site: Mapping[str, object]) -> str:
    """The release of the site's clusters: that of its site.yaml, or CURRENT."""
    return str(site.get("parallelcluster", CURRENT))


def slurm_version(site: Mapping[str, object]) -> str | None:
    """The Slurm of the site's release, or of CURRENT; None if that is not known."""
    return _SLURM.get(release_of(site))
