"""Creates an account's networks, keys, images, buckets and file systems in moto.

This module knows moto and boto3; it must not know configs. moto generates random ids, so its
generators are patched to return ours.
"""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

from clusterjobs.parallelcluster.validation.account import (
    MAIN_VPC,
    NUMBER,
    Account,
    Image,
    OfficialImages,
)

_ALL = "-1"
_EVERYWHERE = [{"CidrIp": "0.0.0.0/0"}]
_CLOSED, OPEN_DRIVER_MARK = "An image of the site's own", "AWS ParallelCluster AMI"


def seed(account: Account) -> None:
    """Create the account's resources in its region. moto's mock must be active."""
    import boto3

    ec2 = boto3.client("ec2", account.region)
    vpcs = {name: _make_vpc(ec2, number, account, name) for number, name in _numbered(account.vpcs)}
    _make_subnets(ec2, account, vpcs)
    _make_security_groups(ec2, account, vpcs)
    for name, key in account.keys.items():
        if not key.missing:
            ec2.create_key_pair(KeyName=name, KeyType=key.type)
    _make_addresses(ec2, account)
    _make_images(account)
    _make_buckets(boto3.client("s3", account.region), account)
    _make_storage(boto3.client("efs", account.region), ec2, account)


def _numbered(named: dict[str, Any]) -> list[tuple[int, str]]:
    return list(enumerate(named))


def _make_vpc(ec2: Any, number: int, account: Account, name: str) -> str:
    vpc: str = ec2.create_vpc(CidrBlock=f"10.{number}.0.0/16")["Vpc"]["VpcId"]
    facts = account.vpcs[name]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsSupport={"Value": facts.dns_support})
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": facts.dns_hostnames})
    return vpc


def _make_subnets(ec2: Any, account: Account, vpcs: dict[str, str]) -> None:
    for number, name in _numbered(account.subnets):
        subnet = account.subnets[name]
        if subnet.missing:
            continue
        block = f"10.{list(vpcs).index(subnet.vpc)}.{number * 4 % 256}.0/22"
        with patch("moto.ec2.models.subnets.random_subnet_id", return_value=name):
            ec2.create_subnet(VpcId=vpcs[subnet.vpc], CidrBlock=block, AvailabilityZone=subnet.zone)
        if subnet.public:
            ec2.modify_subnet_attribute(SubnetId=name, MapPublicIpOnLaunch={"Value": True})


def _make_security_groups(ec2: Any, account: Account, vpcs: dict[str, str]) -> None:
    for name, group in account.security_groups.items():
        if group.missing:
            continue
        with patch("moto.ec2.models.security_groups.random_security_group_id", return_value=name):
            ec2.create_security_group(GroupName=name, Description="-", VpcId=vpcs[group.vpc])
        if not group.open_outbound:  # every new group has this rule
            ec2.revoke_security_group_egress(GroupId=name, IpPermissions=_permissions(open_=True))
        inbound = _permissions(group.open_inbound, name if group.self_inbound else "")
        outbound = _permissions(False, name if group.self_outbound else "")
        if inbound:
            ec2.authorize_security_group_ingress(GroupId=name, IpPermissions=inbound)
        if outbound:
            ec2.authorize_security_group_egress(GroupId=name, IpPermissions=outbound)


def _permissions(open_: bool, member_of: str = "") -> list[dict[str, Any]]:
    rules: list[dict[str, Any]] = []
    if open_:
        rules.append({"IpProtocol": _ALL, "IpRanges": _EVERYWHERE})
    if member_of:
        rules.append({"IpProtocol": _ALL, "UserIdGroupPairs": [{"GroupId": member_of}]})
    return rules


def _make_addresses(ec2: Any, account: Account) -> None:
    for name, address in account.addresses.items():
        if not address.missing:
            ec2.allocate_address(Domain="vpc", Address=name)


# ------------------------------------------------------------------ images


def _make_images(account: Account) -> None:
    """Official images, with the names that ParallelCluster searches for, and the account's own."""
    from pcluster.constants import OS_TO_IMAGE_NAME_PART_MAP
    from pcluster.utils import get_installed_version

    version, chosen = get_installed_version(), account.official_images
    number = 0
    for os, part in OS_TO_IMAGE_NAME_PART_MAP.items():
        for architecture in ("x86_64", "arm64"):
            number += 1
            name = f"aws-parallelcluster-{version}-{part}-{architecture}-202601010000"
            official = Image(os, architecture, driver="open")
            _make_image(account, f"ami-0{number:016x}", name, official, owner_alias="amazon")
            if chosen != OfficialImages():
                ours = f"ami-1{number:016x}"
                _make_image(account, ours, chosen.name_prefix + name, official, **_owner(chosen))
    for ami, image in account.images.items():
        if not image.missing:
            _make_image(account, ami, ami, image, tags=_tags(image, version))


def _owner(chosen: OfficialImages) -> dict[str, Any]:
    """Owner and tags of the images that a config's AmiSearchFilters are to find."""
    owner = NUMBER if chosen.owner == "self" else chosen.owner or "amazon"
    return {"owner_id" if owner.isdigit() else "owner_alias": owner, "tags": chosen.tags}


def _make_image(account: Account, ami: str, name: str, image: Image, **more: Any) -> None:
    from moto.ec2.models import ec2_backends
    from moto.ec2.models.amis import Ami

    backend = ec2_backends[NUMBER][account.region]
    backend.amis[ami] = Ami(
        backend,
        ami,
        name=name,
        description=OPEN_DRIVER_MARK if image.driver == "open" else _CLOSED,
        architecture=image.architecture,
        virtualization_type="hvm",
        root_device_type="ebs",
        region_name=f"{account.region}a",
        public=True,
        **more,
    )


def _tags(image: Image, installed: str) -> dict[str, str]:
    """The tags that `pcluster build-image` sets."""
    if image.version == "none":
        return {}
    return {
        "parallelcluster:version": image.version or installed,
        "parallelcluster:os": image.os,
        "parallelcluster:build_status": "available",
    }


# ------------------------------------------------------------------ buckets and storage


def _make_buckets(s3: Any, account: Account) -> None:
    for name, bucket in account.buckets.items():
        if bucket.missing:
            continue
        region = bucket.region or account.region
        location = {"CreateBucketConfiguration": {"LocationConstraint": region}}
        s3.create_bucket(Bucket=name, **({} if region == "us-east-1" else location))
        if bucket.versioning:
            s3.put_bucket_versioning(Bucket=name, VersioningConfiguration={"Status": "Enabled"})
    for url, found in account.objects.items():
        bucket_name, _, key = url.removeprefix("s3://").partition("/")
        exists = bucket_name in account.buckets and not account.buckets[bucket_name].missing
        if exists and not found.missing:
            s3.put_object(Bucket=bucket_name, Key=key, Body=b"#!/bin/bash\n")


def _make_storage(efs: Any, ec2: Any, account: Account) -> None:
    """EFS and EBS; for FSx see `fake_clients.py`."""
    for name, found in account.file_systems.items():
        if found.missing:
            continue
        if found.kind == "EFS":
            _make_efs(efs, ec2, account, name)
        elif name.startswith("vol-"):
            size = found.capacity_gib or 500
            _make_as("volume", name, ec2.create_volume, AvailabilityZone=found.zone, Size=size)
        elif name.startswith("snap-"):
            size = found.capacity_gib or 100
            volume = ec2.create_volume(AvailabilityZone=found.zone, Size=size)["VolumeId"]
            _make_as("snapshot", name, ec2.create_snapshot, VolumeId=volume)


def _make_as(kind: str, name: str, create: Any, **arguments: Any) -> None:
    with patch(f"moto.ec2.models.elastic_block_store.random_{kind}_id", return_value=name):
        create(**arguments)


def _make_efs(efs: Any, ec2: Any, account: Account, name: str) -> None:
    """With a mount target in every zone that the cluster uses, like a standard EFS."""
    from moto.efs.models import efs_backends

    made = efs.create_file_system(CreationToken=name)["FileSystemId"]
    by_id = efs_backends[NUMBER][account.region].file_systems_by_id
    by_id[name] = by_id.pop(made)
    by_id[name].file_system_id = name
    group = storage_group(ec2, account, name)
    zones: set[str] = set()
    for subnet, facts in account.subnets.items():
        if facts.zone not in zones and not facts.missing and facts.vpc == MAIN_VPC:
            zones.add(facts.zone)
            efs.create_mount_target(FileSystemId=name, SubnetId=subnet, SecurityGroups=[group])


def storage_group(ec2: Any, account: Account, name: str) -> str:
    """A security group for a file system; it allows the nodes if the file system is reachable."""
    vpc = ec2.describe_vpcs(Filters=[{"Name": "cidr", "Values": ["10.0.0.0/16"]}])["Vpcs"][0]
    group: str = ec2.create_security_group(
        GroupName=f"of-{name}", Description="-", VpcId=vpc["VpcId"]
    )["GroupId"]
    if account.file_systems[name].reachable:
        ec2.authorize_security_group_ingress(GroupId=group, IpPermissions=_permissions(True))
    return group
