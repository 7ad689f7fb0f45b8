"""Checks regions and instance types: what a region offers, and which types have EFA."""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.catalog.instances import (
    catalogue_date,
    find_instance_type,
    instance_type_names,
)
from clusterjobs.errors import did_you_mean, nearest
from clusterjobs.parallelcluster.coerce import at, text, truth
from clusterjobs.parallelcluster.validation import walk
from clusterjobs.parallelcluster.validation.account import Account
from clusterjobs.parallelcluster.validation.finding import Finding
from clusterjobs.parallelcluster.validation.offerings import (
    offered_nowhere,
    region_names,
    zones_of_type,
)
from clusterjobs.parallelcluster.validation.walk import Data
from clusterjobs.yaml.document import Path


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
    head = text(at(data, "HeadNode", "InstanceType"))
    if head:
        yield from _check_offer(("HeadNode", "InstanceType"), head, account.region)


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
