"""What a ParallelCluster config says about its cluster, as plain facts.

Here are only the shapes. `read.py` fills them from a config, leniently: None means that the
config does not say. Nothing here knows experiments, Slurm's files or AWS.
"""

from __future__ import annotations

from dataclasses import dataclass

from clusterjobs.yaml_source import Path


@dataclass(frozen=True)
class ComputeResource:
    """One entry of `ComputeResources`. `path` is its place in the config."""

    name: str
    instance_types: tuple[str, ...]
    min_count: int
    max_count: int
    efa: bool
    disable_smt: bool
    schedulable_memory_mib: int | None
    path: Path


@dataclass(frozen=True)
class Queue:
    """One entry of `SlurmQueues`; Slurm's partition of the same name."""

    name: str
    compute_resources: tuple[ComputeResource, ...]
    capacity_type: str
    placement_group: bool | None
    subnet_ids: tuple[str, ...]
    job_exclusive: bool
    scratch_dir: str
    path: Path


@dataclass(frozen=True)
class Mount:
    """One entry of `SharedStorage`: a folder that all nodes share."""

    directory: str
    name: str
    storage_type: str
    path: Path


@dataclass(frozen=True)
class Cluster:
    """The facts of one config. `name` is the config's file name without its ending."""

    name: str
    file: str
    region: str | None
    os: str | None
    memory_scheduling: bool
    queues: tuple[Queue, ...]
    mounts: tuple[Mount, ...]
