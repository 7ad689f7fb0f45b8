"""Refuses data sets with impossible paths: they conflict with each other or with the cluster."""

from __future__ import annotations

from clusterjobs.sections.context import Context
from clusterjobs.sections.placement.storage import is_below
from clusterjobs.sections.plan import ZSTD_ARCHIVES
from clusterjobs.spec.keys.staging import Data
from clusterjobs.text import is_absolute, show, without_slash

# What Python 3.7's standard library can unpack, and what it can with the program zstd.
ARCHIVES = (
    *(".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tbz2", ".tar.xz", ".txz", ".zip"),
    *ZSTD_ARCHIVES,
)


def check_data(context: Context, index: int, data: Data) -> None:
    """Check one data set by itself."""
    _check_paths(context, index, data)
    if data.scope == "node":
        _check_own_disk(context, index, data)
    else:
        _check_shared(context, index, data)
    if data.unpack and not show(data.source).lower().endswith(ARCHIVES):
        context.problem(
            ("data", index, "source"),
            f"{show(data.source)} is not an archive that a job can unpack",
            f"one of {', '.join(ARCHIVES)}; or leave unpack out",
        )


def _check_paths(context: Context, index: int, data: Data) -> None:
    for key in ("source", "target"):
        value = getattr(data, key)
        if not (is_absolute(value) or value.startswith("s3://")):
            context.problem(
                ("data", index, key),
                f"{show(value)} is relative, but the nodes have no common working folder",
                f"an absolute path: /fsx/{show(value)}",
            )
    if data.source.startswith("s3://"):
        return
    place = ("data", index, "target")
    if without_slash(data.source) == without_slash(data.target):
        context.problem(place, "source and target are the same folder", "remove one of them")
    elif is_below(data.target, data.source) or is_below(data.source, data.target):
        context.problem(
            place,
            f"{show(data.target)} and {show(data.source)} lie inside each other",
            "choose a target outside of the source",
        )


def _check_own_disk(context: Context, index: int, data: Data) -> None:
    storage = context.storage
    place, folder = ("data", index, "target"), data.target
    if not folder.startswith("/"):
        return
    if storage.is_shared(folder):
        context.problem(
            place,
            f"{show(folder)} is shared, so that every node would copy to the same place",
            f"scope: shared copies once; a node's own disk is {storage.scratch}",
        )
    elif not storage.is_own(folder):
        context.problem(
            place,
            f"{show(folder)} is not on a local disk of the nodes",
            f"a folder below {storage.scratch}",
        )
    elif without_slash(folder) == storage.scratch:
        context.problem(
            place,
            f"{show(folder)} is a mount point: nothing can be copied beside it first",
            f"a folder below it: {storage.scratch}/data",
        )
    elif is_below(folder, storage.scratch) and storage.node_type.local_disk_gb == 0:
        context.problem(
            place,
            f"a {storage.node_type.name} has no local disks: {storage.scratch} is on its "
            "root volume, if it exists",
            "scope: shared, or an instance type with NVMe disks",
            warning=True,
        )


def _check_shared(context: Context, index: int, data: Data) -> None:
    storage = context.storage
    place, folder = ("data", index, "target"), data.target
    if not folder.startswith("/") or not storage.facts.mounts_complete:
        return
    if storage.is_own(folder) and not storage.is_shared(folder):
        context.problem(
            place,
            f"{show(folder)} is each node's own, and only the first node would have the data",
            f"scope: node copies to every node; shared folders: {storage.mounts}",
        )
    elif not storage.is_shared(folder):
        context.problem(
            place,
            f"{show(folder)} is not on shared storage of {storage.facts.name}",
            f"its shared folders: {storage.mounts}",
            warning=True,
        )
    elif storage.is_mount_point(folder):
        context.problem(
            place,
            f"{show(folder)} is a mount point: nothing can be copied beside it first",
            f"a folder below it: {show(without_slash(folder))}/data",
        )


def check_overlaps(context: Context) -> None:
    """Refuse two data sets in one folder: their files could not be told apart."""
    data = context.spec.data
    for index, one in enumerate(data):
        for earlier in range(index):
            other = data[earlier].target
            if is_below(one.target, other) or is_below(other, one.target):
                line = context.diagnostics.line_of(("data", earlier, "target"))
                context.problem(
                    ("data", index, "target"),
                    f"{show(one.target)} and the target {show(other)} ({line}) are the same, or "
                    "one is below the other",
                    "choose a separate folder for each",
                )


def check_own_folders(context: Context) -> None:
    """Refuse a target that is the folder of the logs or the checkpoints, or above it, or in it."""
    spec = context.spec
    folders = {"logs": spec.logs.path}
    if spec.checkpoints:
        folders["checkpoints.path"] = spec.checkpoints.path
    for index, one in enumerate(spec.data):
        for key, folder in folders.items():
            if is_below(one.target, folder) or is_below(folder, one.target):
                context.problem(
                    ("data", index, "target"),
                    f"{show(one.target)} and {key}, {show(folder)}, are the same, or one is below "
                    "the other: staging would take the job's files for data",
                    "choose a separate folder for the data",
                )


def check_room(context: Context) -> None:
    """Compare the data for a folder with the folder's size, if both are known."""
    for folder, capacity, is_shared in context.storage.capacities:
        wanted = 0
        for index, one in enumerate(context.spec.data):
            if one.size_gib is None or not is_below(one.target, folder):
                continue
            wanted += one.size_gib
            if wanted > capacity:
                context.problem(
                    ("data", index, "size_gib"),
                    f"{folder} has {capacity:,} GiB, and {wanted:,} GiB are staged to it",
                    f"a larger {context.storage.facts.terms.capacity}, or less data"
                    if is_shared
                    else "scope: shared, or an instance type with larger disks",
                )
                break
