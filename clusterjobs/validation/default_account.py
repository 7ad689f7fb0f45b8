"""The default simulated account of a config: every resource that the config names exists and fits.

With it, everything that does not depend on the account is really checked.
"""

import re
from collections.abc import Mapping
from typing import Any

from clusterjobs.catalog import find_instance_type
from clusterjobs.clusters.parallelcluster.detect import at, items, number, text
from clusterjobs.validation import finding as walk
from clusterjobs.validation.account import (
    Account,
    Bucket,
    FileSystem,
    Image,
    Key,
    Named,
    OfficialImages,
    Reservation,
    SecurityGroup,
    Subnet,
    best_zones,
)
from clusterjobs.validation.finding import Data, Entry

# ------------------------------------------------------------------ capacity reservations


def default_reservations(data: Data, account: Account) -> dict[str, Reservation]:
    """Reservations that are large enough for all compute resources that use them.

    Type and zone are those of the first.
    """
    found: dict[str, Reservation] = {}
    for queue in walk.queues(data):
        block = text(at(queue[1], "CapacityType")) == "CAPACITY_BLOCK"
        for _, entry in walk.compute_resources(queue):
            if group := _target(entry, queue[1], _GROUP):
                found |= _members(group, queue[1], entry, account, block)
            name = _target(entry, queue[1], _RESERVATION)
            if not name:
                continue
            before = found.get(name, Reservation())
            found[name] = Reservation(
                before.instance_type or next(iter(walk.instance_types(entry)), "c5.large"),
                before.count + (number(at(entry, "MaxCount")) or 10),
                before.zone or zone_of_queue(queue[1], account),
                "capacity-block" if block else before.kind,
            )
    return found


_RESERVATION, _GROUP = "CapacityReservationId", "CapacityReservationResourceGroupArn"


def _target(resource: Any, queue: Any, key: str) -> str | None:
    """Of CapacityReservationTarget: a compute resource's own goes before its queue's."""
    owners = (at(owner, "CapacityReservationTarget") for owner in (resource, queue))
    return text(at(next((found for found in owners if found), None), key))


def _members(
    group: str, queue: Data, resource: Data, account: Account, block: bool
) -> dict[str, Reservation]:
    """A reservation of the group for each type in each zone, so that the group serves the nodes."""
    kind = "capacity-block" if block else "default"
    count = number(at(resource, "MaxCount")) or 10
    zones = {account.subnets[name].zone for name in walk.subnet_ids(queue)}
    return {
        f"cr-of-{group.rpartition('/')[2]}-{kind_of_node}-{zone}": Reservation(
            kind_of_node, count, zone, kind, group
        )
        for kind_of_node in walk.instance_types(resource)
        for zone in sorted(zones)
    }


def zone_of_queue(queue: Data, account: Account) -> str:
    """The zone of the queue's first subnet, which must be in the account already."""
    subnets = [account.subnets[name] for name in walk.subnet_ids(queue)]
    return subnets[0].zone if subnets else f"{account.region}a"


DEFAULT_REGION = "us-east-1"
Zones = Mapping[str, str]

_GRAVITON = re.compile(r"(a1|[a-z]+\d+g[a-z]*|p6e-gb\d+)\.")
_S3 = re.compile(r"s3://([^/\s]+)(?:/(\S+))?")
_IP = re.compile(r"\d+\.\d+\.\d+\.\d+")
_AMI = re.compile(r"ami-[0-9a-f]+")


def default_account(data: Data, zones: Zones | None = None) -> Account:
    """An account in which every resource that the config names exists, with fitting attributes.

    `zones` are those that a person gave, by the resource's name: what is assumed fits them.
    """
    # Without a region, ParallelCluster would use that of the caller.
    account = Account(region=text(at(data, "Region")) or DEFAULT_REGION)
    account.subnets = _subnets(data, account.region, zones or {})
    account.security_groups = {name: SecurityGroup() for name in _security_groups(data)}
    key = text(at(data, "HeadNode", "Ssh", "KeyName"))
    account.keys = {key: Key()} if key else {}
    account.images = _images(data)
    account.official_images = _official_images(data)
    account.reservations = default_reservations(data, account)
    account.file_systems = _file_systems(data, account)
    address = text(at(data, "HeadNode", "Networking", "ElasticIp"))
    account.addresses = {address: Named()} if address and _IP.fullmatch(address) else {}
    account.placement_groups = {name: Named() for name in _placement_groups(data)}
    _s3(data, account)
    return account


# ------------------------------------------------------------------ networks


def _subnets(data: Data, region: str, given: Zones) -> dict[str, Subnet]:
    """One zone for all if it offers their types; subnets of one queue are in different zones."""
    everywhere = [kind for queue in walk.queues(data) for kind in _types_of_queue(queue)]
    wanted = list(given.values())
    found: dict[str, Subnet] = {}
    for queue in walk.queues(data):
        zones = best_zones([*_types_of_queue(queue) * len(everywhere), *everywhere], region, wanted)
        subnets = list(dict.fromkeys(walk.subnet_ids(queue[1])))
        taken = [given[subnet] for subnet in subnets if subnet in given]
        free = [zone for zone in zones if zone not in taken] or zones
        assumed = [subnet for subnet in subnets if subnet not in given]
        for index, subnet in enumerate(assumed):
            found.setdefault(subnet, Subnet(free[index % len(free)]))
        found |= {subnet: Subnet(given[subnet]) for subnet in subnets if subnet in given}
    for owner in (at(data, "HeadNode"), *(pool for _, pool in walk.login_pools(data))):
        own = [text(at(owner, "InstanceType")) or ""]
        zone = best_zones([*own * (len(everywhere) + 1), *everywhere], region, wanted)[0]
        for subnet in walk.subnet_ids(owner if isinstance(owner, dict) else {}):
            found.setdefault(subnet, Subnet(given.get(subnet, zone), public=True))
    return found


def _types_of_queue(queue: Entry) -> list[str]:
    return [
        kind for _, entry in walk.compute_resources(queue) for kind in walk.instance_types(entry)
    ]


def _security_groups(data: Data) -> list[str]:
    names = (
        "SecurityGroups",
        "AdditionalSecurityGroups",
        "ExistingSecurityGroups",
        "SecurityGroupIds",
    )
    return [
        str(value)
        for path, value in walk.scalars(data)
        if any(name in path for name in names) and str(value).startswith("sg-")
    ]


# ------------------------------------------------------------------ images, capacity, storage


def architecture(instance_type: str) -> str:
    """The architecture, from the catalogue or the name: `g` after the number is Graviton."""
    known = find_instance_type(instance_type)
    if known:
        return known.architecture
    return "arm64" if _GRAVITON.match(instance_type) else "x86_64"


def _images(data: Data) -> dict[str, Image]:
    head = text(at(data, "HeadNode", "InstanceType")) or ""
    image = Image(text(at(data, "Image", "Os")) or "", architecture(head))
    return {
        str(value): image
        for path, value in walk.scalars(data)
        if path[-1] == "CustomAmi" and _AMI.fullmatch(str(value))
    }


_KINDS_OF_STORAGE = {
    "FsxLustre": "LUSTRE",
    "FsxOpenZfs": "OPENZFS",
    "FsxOntap": "ONTAP",
    "FileCache": "FILECACHE",
    "Efs": "EFS",
    "Ebs": "EBS",
}
_IDS_OF_STORAGE = ("FileSystemId", "VolumeId", "FileCacheId", "SnapshotId", "BackupId")


def storage_ids(storage: Data) -> list[tuple[str, str]]:
    """The keys of a storage entry that name existing resources, with their values."""
    return [
        (str(path[-1]), str(value))
        for path, value in walk.scalars(storage)
        if path[-1] in _IDS_OF_STORAGE and text(value)
    ]


def _file_systems(data: Data, account: Account) -> dict[str, FileSystem]:
    """The file systems, in the zone of the first subnet, where ParallelCluster creates them."""
    _, queue = next(walk.queues(data), ((), {}))
    zone = zone_of_queue(queue, account)
    return {
        name: FileSystem(
            _KINDS_OF_STORAGE.get(text(at(storage, "StorageType")) or "", "EBS"),
            zone,
            capacity_gib=_size_of_snapshot(storage) if key == "SnapshotId" else 0,
        )
        for _, storage in walk.storages(data)
        for key, name in storage_ids(storage)
    }


_DEFAULT_EBS_SIZE = 40  # GiB; pcluster/constants.py of ParallelCluster 3.16.1


def _size_of_snapshot(storage: Data) -> int:
    """The size of a snapshot: that of the volume that is made of it."""
    return number(at(storage, "EbsSettings", "Size")) or _DEFAULT_EBS_SIZE


def _official_images(data: Data) -> OfficialImages:
    """Images that DevSettings.AmiSearchFilters finds."""
    filters = at(data, "DevSettings", "AmiSearchFilters")
    tags = [(text(at(tag, "Key")), text(at(tag, "Value"))) for tag in items(at(filters, "Tags"))]
    return OfficialImages(
        text(at(filters, "Owner")) or "",
        text(at(filters, "NamePrefix")) or "",
        {key: value for key, value in tags if key and value},
    )


def _placement_groups(data: Data) -> list[str]:
    return [
        str(value)
        for path, value in walk.scalars(data)
        if path[-2:-1] == ("PlacementGroup",) and path[-1] in ("Name", "Id") and text(value)
    ]


def _s3(data: Data, account: Account) -> None:
    """Buckets and objects. A name with a wildcard is an IAM pattern, not a bucket."""
    names = [text(at(data, "CustomS3Bucket"))]
    for path, value in walk.scalars(data):
        if path[-1] == "BucketName":
            names.append(str(value))
        for bucket, key in _S3.findall(str(value)):
            names.append(bucket)
            if key:
                account.objects[f"s3://{bucket}/{key}"] = Named()
    account.buckets = {name: Bucket(account.region) for name in names if name and "*" not in name}
