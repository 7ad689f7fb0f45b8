"""The folders that a job sees: shared by all nodes, or local to each node.

It uses facts of the cluster and the node type. Other modules decide what is staged or exported.
"""

import functools
import pathlib
from collections.abc import Iterator
from typing import NamedTuple

from clusterjobs.clusters.facts import ClusterFacts, NodeType
from clusterjobs.text import Text, Value, split_text, without_slash

# Every Linux system has them, and no cluster shares them.
_ALWAYS_OWN = ("/tmp", "/var/tmp", "/dev/shm")


class Storage(NamedTuple):
    """The storage of the job's nodes. `scratch`: where their local disks are mounted."""

    facts: ClusterFacts
    scratch: str
    node_type: NodeType

    def can_link(self, folder: Value) -> bool:
        """Whether it is a fixed path on a file system that can be linked to a bucket."""
        is_fixed = not isinstance(folder, Text) and "${" not in folder
        return is_fixed and any(is_below(folder, mount) for mount in self._linking)

    @property
    def _linking(self) -> list[str]:
        mounts = self.facts.mounts if self.facts.bucket_service else ()
        return [one.path for one in mounts if one.kind == "lustre"]

    @property
    def service(self) -> str:
        """The service that links file systems to buckets."""
        return self.facts.bucket_service or "a file system that can be tied to a bucket"

    @property
    def linking(self) -> str:
        """The file systems that can be linked to buckets, for a hint."""
        return ", ".join(self._linking) or f"{self.facts.name} has none"

    def is_shared(self, folder: Value) -> bool:
        mounts = (mount.path for mount in self.facts.mounts)
        return any(is_below(folder, one) for one in (*self.facts.shared_folders, *mounts))

    def is_own(self, folder: Value) -> bool:
        return any(is_below(folder, one) for one in (self.scratch, *_ALWAYS_OWN))

    def is_mount_point(self, folder: Value) -> bool:
        mounts = (mount.path for mount in self.facts.mounts)
        return without_slash(folder) in (*self.facts.shared_folders, *mounts)

    @property
    def mounts(self) -> str:
        """The shared folders of the cluster, for a hint."""
        always = self.facts.shared_folders
        named = [one.path for one in self.facts.mounts if one.path not in always]
        return ", ".join(named) or "none but /home"

    @property
    def capacities(self) -> Iterator[tuple[str, int, bool]]:
        """Folders of known size: the path, its GiB, and whether all nodes share it."""
        for mount in self.facts.mounts:
            if mount.capacity_gib:
                yield mount.path, mount.capacity_gib, True
        if self.node_type.local_disk_gb:
            yield self.scratch, self.node_type.local_disk_gb * 10**9 // 2**30, False


def find_storage(facts: ClusterFacts, partition: str, node_type: NodeType) -> Storage:
    """The storage of the job's nodes."""
    scratch = node_type.scratch or facts.partition(partition).local_disk or "/tmp"
    return Storage(facts, scratch, node_type)


def is_below(folder: Value, outer: Value) -> bool:
    """Whether `folder` is `outer` or below it."""
    wanted = path_parts(outer)
    return path_parts(folder)[: len(wanted)] == wanted


@functools.lru_cache(maxsize=4096)
def path_parts(path: Value) -> tuple[Value, ...]:
    """The names in a path; the first is "/" if it is absolute."""
    return tuple(split_text(path, lambda text: pathlib.PurePosixPath(text).parts))
