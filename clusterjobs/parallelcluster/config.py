"""The content of a ParallelCluster config, as data classes.

`read.py` fills them from a config, leniently: None means that the config does not say. They know
no experiments, no files of Slurm, and no AWS account.
"""

from __future__ import annotations

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
    placement_group: bool | None
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
    `slurm_version`: that of the site's ParallelCluster; None if it is unknown.
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
