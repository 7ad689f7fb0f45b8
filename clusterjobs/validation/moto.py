"""Creates an account's networks, keys, images, buckets and file systems in moto.

moto generates random ids, so its generators are patched to return ours. Each part says which
validators of ParallelCluster read it.
"""

import contextlib
import copy
import functools
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from clusterjobs.catalog import find_instance_type, instance_type_names
from clusterjobs.validation.account import (
    MAIN_VPC,
    NUMBER,
    Account,
    Image,
    OfficialImages,
    Reservation,
    best_zones,
)

_ALL = "-1"
_EVERYWHERE = [{"CidrIp": "0.0.0.0/0"}]
_CLOSED, OPEN_DRIVER_MARK = "An image of the site's own", "AWS ParallelCluster AMI"


def seed(account: Account) -> None:
    """Create the account's resources in its region. moto's mock must be active.

    Keys: KeyPairValidator. Addresses: ElasticIpValidator.
    """
    import boto3

    ec2 = boto3.client("ec2", account.region)
    vpcs = {name: _make_vpc(ec2, number, account, name) for number, name in enumerate(account.vpcs)}
    _make_subnets(ec2, account, vpcs)
    _make_security_groups(ec2, account, vpcs)
    for name, key in account.keys.items():
        if not key.missing:
            ec2.create_key_pair(KeyName=name, KeyType=key.type)
    for name, address in account.addresses.items():
        if not address.missing:
            ec2.allocate_address(Domain="vpc", Address=name)
    _make_images(account)
    _make_buckets(boto3.client("s3", account.region), account)
    _make_storage(boto3.client("efs", account.region), ec2, account)


def _make_vpc(ec2: Any, number: int, account: Account, name: str) -> str:
    """SubnetsValidator: the DNS of the network, and whether all subnets are in it."""
    vpc: str = ec2.create_vpc(CidrBlock=f"10.{number}.0.0/16")["Vpc"]["VpcId"]
    facts = account.vpcs[name]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsSupport={"Value": facts.dns_support})
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": facts.dns_hostnames})
    return vpc


def _make_subnets(ec2: Any, account: Account, vpcs: dict[str, str]) -> None:
    """SubnetsValidator, MultiNetworkInterfacesInstancesValidator, and all that compare zones."""
    for number, (name, subnet) in enumerate(account.subnets.items()):
        if subnet.missing:
            continue
        block = f"10.{list(vpcs).index(subnet.vpc)}.{number * 4 % 256}.0/22"
        with patch("moto.ec2.models.subnets.random_subnet_id", return_value=name):
            ec2.create_subnet(VpcId=vpcs[subnet.vpc], CidrBlock=block, AvailabilityZone=subnet.zone)
        if subnet.public:
            ec2.modify_subnet_attribute(SubnetId=name, MapPublicIpOnLaunch={"Value": True})


def _make_security_groups(ec2: Any, account: Account, vpcs: dict[str, str]) -> None:
    """SecurityGroupsValidator, EfaSecurityGroupValidator, ExistingFsxNetworkingValidator."""
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


# ------------------------------------------------------------------ images


def _make_images(account: Account) -> None:
    """Official images, with the names that ParallelCluster searches for, and the account's own.

    AmiOsCompatibleValidator, CustomAmiTagValidator, InstanceTypeBaseAMICompatibleValidator.
    """
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
    """S3BucketValidator, S3BucketRegionValidator, S3BucketUriValidator, UrlValidator."""
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
    """EFS and EBS; for FSx see `offline.Fsx`.

    EfsIdValidator, SharedEbsVolumeIdValidator, EbsVolumeSizeSnapshotValidator.
    """
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
    """Make an EFS with a mount target in each zone of the cluster, as a standard one has."""
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


# ------------------------------------------------------------------ corrected calls of moto


@contextlib.contextmanager
def patched_moto(account: Account) -> Iterator[None]:
    """Within this context moto has the missing calls, which read the account.

    Placement groups: PlacementGroupNamingValidator. Reservations: CapacityReservationValidator,
    CapacityReservationSizeValidator, PlacementGroupCapacityReservationValidator. Blocks:
    CapacityBlockHealthStatusValidator.
    """
    from moto.ec2.responses import EC2Response
    from moto.ec2.responses.instances import InstanceResponse

    added = {
        "describe_placement_groups": functools.partialmethod(_placement_groups, account),
        "describe_capacity_reservations": functools.partialmethod(_reservations, account),
        "describe_capacity_block_status": functools.partialmethod(_block_status, account),
    }
    with contextlib.ExitStack() as stack:
        for name, method in added.items():
            stack.enter_context(patch.object(EC2Response, name, method, create=True))
        stack.enter_context(patch.object(InstanceResponse, "run_instances", _run_instances))
        yield


def _placement_groups(response: Any, account: Account) -> Any:
    names = response._get_param("GroupNames", []) or list(account.placement_groups)
    for name in names:
        _refuse_missing(account.placement_groups, name, "InvalidPlacementGroup.Unknown")
    return _result("PlacementGroups", [{"GroupName": name} for name in names])


def _reservations(response: Any, account: Account) -> Any:
    names = response._get_param("CapacityReservationIds", []) or list(account.reservations)
    for name in names:
        _refuse_missing(account.reservations, name, "InvalidCapacityReservationId.NotFound")
    found = [_reservation(name, account.reservations[name], account.region) for name in names]
    return _result("CapacityReservations", found)


def _block_status(_response: Any, account: Account) -> Any:
    statuses = [
        {"CapacityReservationId": name, "TotalCapacity": found.count}
        for name, found in account.reservations.items()
    ]
    healthy = {"InterconnectStatus": "ok", "CapacityReservationStatuses": statuses}
    return _result("CapacityBlockStatuses", [healthy])


def _reservation(name: str, found: Reservation, region: str) -> dict[str, Any]:
    return {
        "CapacityReservationId": name,
        "CapacityReservationArn": f"arn:aws:ec2:{region}:{NUMBER}:capacity-reservation/{name}",
        "OwnerId": NUMBER,
        "InstanceType": found.instance_type,
        "InstancePlatform": "Linux/UNIX",
        "AvailabilityZone": found.zone,
        "TotalInstanceCount": found.count,
        "AvailableInstanceCount": found.count,
        "State": "active",
        "ReservationType": found.kind,
        "Tags": [],
    }


def _refuse_missing(known: dict[str, Any], name: str, code: str) -> None:
    from moto.ec2.exceptions import EC2ClientError

    if name not in known or known[name].missing:
        raise EC2ClientError(code, f"{name} does not exist")


def _result(key: str, values: list[Any]) -> Any:
    from moto.core.responses import ActionResult

    return ActionResult({key: values})


# ------------------------------------------------------------------ a dry run of a launch


def _run_instances(self: Any) -> None:
    """The checks of EC2's RunInstances with DryRun. moto would launch, and fail for some disks.

    HeadNodeLaunchTemplateValidator, ComputeResourceLaunchTemplateValidator.
    """
    kind = self._get_param("InstanceType")
    interfaces = self._get_param("NetworkInterfaces", [])
    self.ec2_backend.describe_images(ami_ids=[self._get_param("ImageId")])
    if key := self._get_param("KeyName"):
        self.ec2_backend.describe_key_pairs(key_names=[key])
    for interface in interfaces:
        _refuse_zone(self.ec2_backend, kind, interface["SubnetId"])
    _refuse_public_address(interfaces)
    self.error_on_dryrun()


def _refuse_zone(backend: Any, kind: str, subnet: str) -> None:
    from moto.ec2.exceptions import EC2ClientError

    zone = backend.get_subnet(subnet).availability_zone
    offers = backend.describe_instance_type_offerings(
        "availability-zone", {"instance-type": [kind]}
    )
    if zone not in {offer["Location"] for offer in offers}:
        raise EC2ClientError(
            "Unsupported",
            f"Your requested instance type ({kind}) is not supported in your requested "
            f"Availability Zone ({zone}).",
        )


def _refuse_public_address(interfaces: list[dict[str, Any]]) -> None:
    from moto.ec2.exceptions import EC2ClientError

    wanted = any(interface.get("AssociatePublicIpAddress") for interface in interfaces)
    if wanted and len(interfaces) > 1:
        raise EC2ClientError(
            "InvalidParameterCombination",
            "The associatePublicIPAddress parameter cannot be specified when launching with "
            "multiple network interfaces.",
        )


# ------------------------------------------------------------------ instance types that moto lacks
# moto has the types of one region and one day. Others exist too: of other regions, retired ones.

_TEMPLATE = "p4d.24xlarge"  # for what the catalogue does not say


@contextlib.contextmanager
def with_catalogue(region: str) -> Iterator[None]:
    """Within this context the region offers every type that AWS has and moto does not know."""
    from moto.ec2.models import instance_types as models

    known = models.INSTANCE_TYPES
    added = {name: _entry(name, known[_TEMPLATE]) for name in instance_type_names()}
    added = {name: entry for name, entry in added.items() if name not in known}
    zones = best_zones((), region)
    with contextlib.ExitStack() as stack:
        stack.enter_context(patch.dict(known, added))
        listed = [*models.InstanceTypeBackend.instance_types, *map(models.InstanceType, added)]
        stack.enter_context(patch.object(models.InstanceTypeBackend, "instance_types", listed))
        for location, places in (("region", [region]), ("availability-zone", zones)):
            rows = models.INSTANCE_TYPE_OFFERINGS[location]
            more = [
                {"InstanceType": name, "LocationType": location, "Location": place}
                for name in added
                for place in places
            ]
            stack.enter_context(patch.dict(rows, {region: [*rows.get(region, []), *more]}))
        yield


def _entry(name: str, template: dict[str, Any]) -> dict[str, Any]:
    """What EC2 would say of it, as far as ParallelCluster's validators read that.

    EfaValidator, InstancesCPUValidator, SchedulableMemoryValidator, HeadNodeMemorySizeValidator,
    InstanceArchitectureCompatibilityValidator.
    """
    found = find_instance_type(name)
    assert found is not None
    cards = found.network_cards or 1
    entry = {**template, "InstanceType": name}
    entry["VCpuInfo"] = {
        "DefaultVCpus": found.vcpus,
        "DefaultCores": found.cores,
        "DefaultThreadsPerCore": found.threads_per_core,
    }
    entry["MemoryInfo"] = {"SizeInMiB": found.memory_mib}
    entry["ProcessorInfo"] = {"SupportedArchitectures": [found.architecture]}
    entry["NetworkInfo"] = {
        **template["NetworkInfo"],
        "EfaSupported": found.efa_interfaces != 0,
        "EfaInfo": {"MaximumEfaInterfaces": found.efa_interfaces or cards},
        "MaximumNetworkCards": cards,
        "NetworkCards": copy.deepcopy(template["NetworkInfo"]["NetworkCards"][:1] * cards),
    }
    entry.pop("GpuInfo", None)
    if found.gpus:
        gpu = {
            "Count": found.gpus,
            "Manufacturer": "NVIDIA",
            "Name": found.gpu_model,
            "MemoryInfo": {"SizeInMiB": found.gpu_memory_mib},
        }
        entry["GpuInfo"] = {"Gpus": [gpu]}
    return entry
