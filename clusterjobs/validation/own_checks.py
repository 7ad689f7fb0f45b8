"""Our own checks: what ParallelCluster does not catch, and what works without the extra.

Each check in the table reads a config's plain data and the account, and yields findings.
"""

from collections.abc import Callable, Iterator

from clusterjobs.catalog import catalogue_date, find_instance_type, instance_type_names
from clusterjobs.clusters.parallelcluster.detect import at, items, text, truth
from clusterjobs.errors import did_you_mean, nearest
from clusterjobs.slurm.values import (
    conf_parameters,
    parameter_name,
    wrong_conf_value,
    wrong_together,
)
from clusterjobs.validation import finding as walk
from clusterjobs.validation.account import Account, offered_nowhere, region_names, zones_of_type
from clusterjobs.validation.default_account import storage_ids
from clusterjobs.validation.finding import FSX_LUSTRE, Data, Entry, Finding, Level
from clusterjobs.yaml.document import Path

# ------------------------------------------------------------------ regions and instance types


def check_region(data: Data, _account: Account) -> Iterator[Finding]:
    """Unknown regions; without a Region, the settings of the person who creates it decide."""
    region = text(at(data, "Region"))
    if region is None:
        what = "no Region: the cluster is created in the region of the caller's AWS settings"
        yield Finding(what, ("Region",), "info", hint="Region: us-east-1")
    elif region not in region_names():
        what = f"ParallelCluster supports no region {region!r}"
        yield Finding(what, ("Region",), hint=did_you_mean(region, region_names()))


def check_instance_types(data: Data, account: Account) -> Iterator[Finding]:
    """Types that the region does not offer, or that lack EFA."""
    for queue in walk.queues(data):
        for path, resource in walk.compute_resources(queue):
            for type_path, kind in _types(path, resource):
                yield from _check_offer(type_path, kind, account.region)
                if truth(at(resource, "Efa", "Enabled")):
                    yield from _check_efa((*path, "Efa", "Enabled"), kind)
    for path, kind in _single_nodes(data):
        yield from _check_offer(path, kind, account.region)


def check_architectures(data: Data, _account: Account) -> Iterator[Finding]:
    """ParallelCluster compares the queues with the head node, and not the pools of login nodes."""
    head = find_instance_type(text(at(data, "HeadNode", "InstanceType")) or "")
    for path, kind in _single_nodes(data):
        own = find_instance_type(kind)
        if head and own and head.architecture != own.architecture:
            what = f"{own.name} is {own.architecture}, the head node {head.architecture}"
            hint = "all nodes of a cluster have the same architecture: choose another type"
            yield Finding(what, path, hint=hint)


def _single_nodes(data: Data) -> Iterator[tuple[Path, str]]:
    """The types of the head node, and of each pool of login nodes."""
    for path, node in ((("HeadNode",), at(data, "HeadNode")), *walk.login_pools(data)):
        if kind := text(at(node, "InstanceType")):
            yield (*path, "InstanceType"), kind


def check_drivers(data: Data, _account: Account | None = None) -> Iterator[Finding]:
    """GPUs that do not run with the driver of ParallelCluster's own images."""
    has_image = text(at(data, "Image", "CustomAmi"))
    for queue in walk.queues(data):
        if has_image or text(at(queue[1], "Image", "CustomAmi")):
            continue
        for path, resource in walk.compute_resources(queue):
            for type_path, kind in _types(path, resource):
                yield from _check_driver(type_path, kind)


def _types(path: Path, resource: Data) -> Iterator[tuple[Path, str]]:
    single = text(at(resource, "InstanceType"))
    if single:
        yield (*path, "InstanceType"), single
    for entry_path, entry in walk.entries(resource, path, "Instances"):
        if kind := text(at(entry, "InstanceType")):
            yield (*entry_path, "InstanceType"), kind


def _check_offer(path: Path, kind: str, region: str) -> Iterator[Finding]:
    """A region's list lacks the type, though another has it; or the type is unknown."""
    if not is_known(kind):
        yield _unknown_type(path, kind)
    elif zones_of_type(kind, region) == () and region in region_names():
        regions = [name for name in region_names() if zones_of_type(kind, name)]
        if regions:  # else it is unknown where
            what = f"{kind} is not offered in {region}"
            yield Finding(what, path, hint=f"offered in {', '.join(regions)}")


def is_known(kind: str) -> bool:
    """Whether the catalogue or the list of some region has the type."""
    return find_instance_type(kind) is not None or not offered_nowhere(kind)


def _unknown_type(path: Path, kind: str) -> Finding:
    """An error where it looks like a typo; else it may be newer than the catalogue."""
    family, _, size = kind.partition(".")
    names = instance_type_names()
    siblings = [name for name in names if name.startswith(f"{family}.")]
    similar = nearest(kind, siblings or names)
    sizes = {name.partition(".")[2] for name in names}
    is_typo = bool(siblings) or size not in sizes
    what = f"{kind} is not among EC2's types of {catalogue_date()}, so nothing was checked with it"
    hint = f"did you mean {similar}? {_NEWER}" if similar and is_typo else _NEWER
    return Finding(what, path, "error" if is_typo else "warning", hint=hint)


_NEWER = "if it is newer: --aws asks your own account, and the catalogue can be refreshed"


def _check_driver(path: Path, kind: str) -> Iterator[Finding]:
    found = find_instance_type(kind)
    if found and found.gpu_model in _CLOSED_DRIVER:
        what = f"{kind} does not run with the driver of ParallelCluster's own images"
        hint = f"the {found.gpu_model} needs NVIDIA's closed driver: {_DRIVER_HINT}"
        yield Finding(what, path, hint=hint)


# Older than Turing: NVIDIA_OPENRM_UNSUPPORTED_INSTANCE_TYPES of ParallelCluster 3.16.1.
_CLOSED_DRIVER = ("K80", "M60", "V100")
_DRIVER_HINT = "set CustomAmi to an image of your own; cluster-configs/p3dn-v100.yaml explains how"


def _check_efa(path: Path, kind: str) -> Iterator[Finding]:
    found = find_instance_type(kind)
    if found and found.efa_interfaces == 0:
        yield Finding(f"{kind} has no EFA", path, hint="Efa: {Enabled: false}, or another type")


# ------------------------------------------------------------------ CustomSlurmSettings
# With a wrong name slurmctld does not start.


_SETTINGS = "CustomSlurmSettings"
# Keys that start a line with further keys, and the level of those; "" is not checked.
_LINES = {"nodename": "node", "partitionname": "partition", "nodeset": "", "downnodes": ""}


def check_slurm_settings(data: Data, _account: Account) -> Iterator[Finding]:
    """Names that Slurm 22.05, 24.11 and 26.05 do not know, and values that they refuse."""
    settings = ("Scheduling", "SlurmSettings", _SETTINGS)
    yield from _check_together(items(at(data, *settings)), settings)
    for index, entry in enumerate(items(at(data, *settings))):
        starts = [str(key).lower() for key in entry] if isinstance(entry, dict) else []
        level = next((_LINES[key] for key in starts if key in _LINES), "cluster")
        yield from _check_parameters(entry if level else None, (*settings, index), level)
    for queue in walk.queues(data):
        path = (*queue[0], _SETTINGS)
        yield from _check_parameters(at(queue[1], _SETTINGS), path, "partition")
        for of_resource, resource in walk.compute_resources(queue):
            path = (*of_resource, _SETTINGS)
            yield from _check_parameters(at(resource, _SETTINGS), path, "node")


def _check_together(entries: list[object], path: Path) -> Iterator[Finding]:
    """Parameters of the cluster that do not fit each other."""
    found = {
        str(key).lower(): (str(value), (*path, index, key))
        for index, entry in enumerate(entries)
        for key, value in (entry.items() if isinstance(entry, dict) else ())
        if isinstance(value, (str, int)) and not isinstance(value, bool)
    }
    for name, wrong in wrong_together({name: value for name, (value, _) in found.items()}):
        hint = f"{wrong.hint}; Slurm does not start with it"
        yield Finding(wrong.what, found[name][1], hint=hint)


def _check_parameters(settings: object, path: Path, level: str) -> Iterator[Finding]:
    for key, value in settings.items() if isinstance(settings, dict) else ():
        if not parameter_name(level, str(key)):
            what = f"Slurm has no {level} parameter {key!r}"
            yield Finding(what, (*path, key), hint=_hint(str(key), level), at_key=True)
        elif isinstance(value, (str, int, float)):
            written = str(value) if not isinstance(value, bool) else str(value).upper()
            if wrong := wrong_conf_value(level, str(key), written):
                hint = f"{wrong.hint}; Slurm does not start with it"
                if not wrong.is_sure:
                    hint = f"{wrong.hint}; unless the site has a plugin of its own"
                severity: Level = "error" if wrong.is_sure else "warning"
                yield Finding(wrong.what, (*path, key), severity, hint=hint)


def _hint(key: str, level: str) -> str:
    elsewhere = next((other for other in _LEVELS if parameter_name(other, key)), None)
    match = nearest(key, conf_parameters(level))
    if elsewhere:
        what = f"it is a {elsewhere} parameter;"
    else:
        what = f"did you mean {match}?" if match else "see slurm.conf(5);"
    return f"{what} slurmctld does not start with an unknown parameter"


_LEVELS = ("cluster", "partition", "node")


# ------------------------------------------------------------------ storage
# Shared folders and Lustre: conflicts, and settings that FSx refuses only at creation.


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


Check = Callable[[Data, Account], Iterator[Finding]]

CHECKS: tuple[Check, ...] = (
    check_region,
    check_instance_types,
    check_architectures,
    check_drivers,
    check_slurm_settings,
    check_mounts,
    check_associations,
    check_import_paths,
    check_zones,
)


def run_checks(data: Data, account: Account) -> list[Finding]:
    return [finding for check in CHECKS for finding in check(data, account)]
