"""The cluster's folders as a job sees them: shared by all nodes, or each node's own.

Facts of the config and of the instance type. What is staged or exported is decided elsewhere.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple

from clusterjobs.parallelcluster.config import Cluster
from clusterjobs.plan.placement import Placement

# Shared by ParallelCluster without standing in SharedStorage.
ALWAYS_SHARED = ("/home", "/opt/parallelcluster/shared", "/opt/intel")
# Every Linux has them, and no cluster shares them.
ALWAYS_OWN = ("/tmp", "/var/tmp", "/dev/shm")


class Storage(NamedTuple):
    """`scratch` is where ParallelCluster mounts a node's NVMe disks.

    `nvme_gb`: what they hold, None for an instance type that is not known. `shared` may lack
    folders where `complete` is False. `capacities`: folders whose size is known, in GiB.
    """

    cluster: str
    lustre: tuple[str, ...]
    shared: tuple[str, ...]
    complete: bool
    scratch: str
    instance_type: str
    nvme_gb: int | None
    capacities: tuple[tuple[str, int], ...] = ()

    def is_on_lustre(self, folder: str) -> bool:
        """Whether it is a fixed folder on FSx for Lustre, which alone can be tied to a bucket."""
        return "${" not in folder and any(is_below(folder, mount) for mount in self.lustre)

    def is_shared(self, folder: str) -> bool:
        return any(is_below(folder, mount) for mount in self.shared)

    def is_own(self, folder: str) -> bool:
        return any(is_below(folder, one) for one in (self.scratch, *ALWAYS_OWN))

    @property
    def mounts(self) -> str:
        """The shared folders of the config, for a hint."""
        always = set(ALWAYS_SHARED)
        return ", ".join(one for one in self.shared if one not in always) or "none but /home"


def find_storage(cluster: Cluster, placement: Placement) -> Storage:
    """The storage of the queue that the job runs in."""
    queue = next(one for one in cluster.queues if one.name == placement.queue)
    scratch = "/" + queue.scratch_dir.strip("/")
    nvme_gb = placement.instance.nvme_gb if placement.instance else None
    capacities = [(one.directory, one.capacity_gib) for one in cluster.mounts if one.capacity_gib]
    if nvme_gb:
        capacities.append((scratch, nvme_gb * 10**9 // 2**30))
    lustre = (one.directory for one in cluster.mounts if one.storage_type == "FsxLustre")
    return Storage(
        cluster.name,
        tuple(lustre),
        (*ALWAYS_SHARED, *(mount.directory for mount in cluster.mounts)),
        cluster.mounts_complete,
        scratch,
        placement.instance_type,
        nvme_gb,
        tuple(capacities),
    )


def is_below(folder: str, outer: str) -> bool:
    """Whether `folder` is `outer` or lies in it."""
    return pathlib.PurePosixPath(folder).is_relative_to(outer)
