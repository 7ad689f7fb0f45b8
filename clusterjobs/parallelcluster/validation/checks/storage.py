"""Checks shared folders and Lustre: conflicts, and settings that FSx refuses only at creation."""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.catalog.instances import find_instance_type
from clusterjobs.parallelcluster.coerce import at, text
from clusterjobs.parallelcluster.validation import walk
from clusterjobs.parallelcluster.validation.account import Account
from clusterjobs.parallelcluster.validation.default_account import storage_ids
from clusterjobs.parallelcluster.validation.finding import Finding
from clusterjobs.parallelcluster.validation.walk import FSX_LUSTRE, Data, Entry
from clusterjobs.yaml.document import Path

_SCRATCH = ("ComputeSettings", "LocalStorage", "EphemeralVolume", "MountDir")
_DEFAULT_SCRATCH = "/scratch"
# Folders of the system. ParallelCluster refuses most of them, but only by their exact names.
_RESERVED = ("/opt/parallelcluster", "/opt/slurm", "/opt/intel", "/etc", "/proc", "/sys", "/dev")


def _absolute(directory: str) -> str:
    return "/" + directory.strip("/")


def _contains(outer: str, inner: str) -> bool:
    return inner == outer or inner.startswith(outer.rstrip("/") + "/")


# ------------------------------------------------------------------ mounts


def check_mounts(data: Data, _account: Account) -> Iterator[Finding]:
    """Relative, reserved and overlapping folders, and folders that hide the nodes' own disks."""
    seen: list[tuple[str, str]] = []
    for path, storage in walk.storages(data):
        written = text(at(storage, "MountDir"))
        if written is None:
            continue
        directory, where = _absolute(written), (*path, "MountDir")
        if not written.startswith("/"):
            what = f"{written} is relative: ParallelCluster mounts it at {directory}"
            yield Finding(what, where, "warning", hint=f"MountDir: {directory}")
        yield from _check_reserved(directory, where)
        for other, name in seen:
            if _contains(other, directory) or _contains(directory, other):
                what = f"{directory} and {other} of {name} overlap"
                yield Finding(what, where, hint="mount each in a folder of its own")
        seen.append((directory, text(at(storage, "Name")) or "another"))
        yield from _check_scratch(data, directory, where)


def _check_reserved(directory: str, where: Path) -> Iterator[Finding]:
    if directory == "/home":
        what = "the file system replaces the head node's /home"
        hint = "keys and files are not copied: use another MountDir, or copy them to it beforehand"
        yield Finding(what, where, "warning", hint=hint)
    for reserved in _RESERVED:
        if _contains(reserved, directory):
            yield Finding(f"{reserved} is a system folder", where, hint="MountDir: /shared")


def _check_scratch(data: Data, directory: str, where: Path) -> Iterator[Finding]:
    """Conflicts with a node's local disks, which ParallelCluster mounts automatically."""
    for _, queue in walk.queues(data):
        scratch = _absolute(text(at(queue, *_SCRATCH)) or _DEFAULT_SCRATCH)
        clash = _contains(scratch, directory) or _contains(directory, scratch)
        if clash and _has_disks(queue):
            queue_name = at(queue, "Name")
            what = f"{directory} overlaps {scratch}, the local disks of queue {queue_name}"
            hint = f"{'.'.join(_SCRATCH)}: /local"
            yield Finding(what, where, "warning", hint=hint)


def _has_disks(queue: Data) -> bool:
    kinds = [k for _, r in walk.compute_resources(((), queue)) for k in walk.instance_types(r)]
    return any(found.nvme_gb for kind in kinds if (found := find_instance_type(kind)))


# ------------------------------------------------------------------ data repositories


def check_associations(data: Data, _account: Account) -> Iterator[Finding]:
    """FSx refuses them on SCRATCH_1, and if two overlap in the file system or the bucket."""
    for storage in walk.storages(data):
        linked = list(walk.associations(storage))
        if linked and at(storage[1], FSX_LUSTRE, "DeploymentType") == "SCRATCH_1":
            yield Finding(
                "a SCRATCH_1 file system cannot have data repository associations",
                (*storage[0], FSX_LUSTRE, "DataRepositoryAssociations"),
                hint="DeploymentType: SCRATCH_2, or ImportPath instead of the associations",
                at_key=True,
            )
        for key in ("FileSystemPath", "DataRepositoryPath"):
            yield from _check_overlaps(linked, key)


def _check_overlaps(linked: list[Entry], key: str) -> Iterator[Finding]:
    seen: list[tuple[str, str]] = []
    for path, entry in linked:
        written = text(at(entry, key))
        if written is None:
            continue
        this = written.rstrip("/") or "/"
        for other, name in seen:
            if _contains(other, this) or _contains(this, other):
                what = f"{written} overlaps {key} {other} of association {name}"
                yield Finding(what, (*path, key), hint="each association needs a folder of its own")
                break
        seen.append((this, text(at(entry, "Name")) or "?"))


def check_import_paths(data: Data, _account: Account) -> Iterator[Finding]:
    """PERSISTENT_2 supports only associations."""
    for path, storage in walk.storages(data):
        settings = at(storage, FSX_LUSTRE)
        if at(settings, "DeploymentType") != "PERSISTENT_2":
            continue
        for key in ("ImportPath", "ExportPath"):
            if at(settings, key) is not None:
                yield Finding(
                    f"a PERSISTENT_2 file system cannot have {key}",
                    (*path, FSX_LUSTRE, key),
                    hint="DataRepositoryAssociations: - {Name: data, FileSystemPath: /data, "
                    "DataRepositoryPath: s3://...}",
                    at_key=True,
                )


# ------------------------------------------------------------------ zones


def check_zones(data: Data, account: Account) -> Iterator[Finding]:
    """A file system in another zone than the nodes: slower, and traffic costs money."""
    zones = {
        account.subnets[subnet].zone
        for _, queue in walk.queues(data)
        for subnet in walk.subnet_ids(queue)
    }
    for path, storage in walk.storages(data):
        for key, name in storage_ids(storage):
            found = account.file_systems.get(name)
            standard_efs = found is not None and found.kind == "EFS"
            if found and found.zone and not standard_efs and zones and found.zone not in zones:
                settings = next(k for k in storage if at(storage, k, key) == name)
                what = f"{name} is in {found.zone}, the nodes in {', '.join(sorted(zones))}"
                hint = "put the queue's subnet and the file system in one zone"
                yield Finding(what, (*path, settings, key), "warning", hint=hint)
