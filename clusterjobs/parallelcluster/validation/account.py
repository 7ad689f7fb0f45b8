"""The resources of an AWS account that a cluster config can refer to.

This module knows only the records and their default values. `default_account.py` derives an account
from a config, `account_overrides.py` applies a user's overrides. It must not know boto3 or moto.
"""

from __future__ import annotations

from dataclasses import dataclass, field

MAIN_VPC = "main"
NUMBER = "123456789012"


@dataclass(frozen=True)
class Subnet:
    """`public`: instances in it get a public address automatically."""

    zone: str = ""
    vpc: str = MAIN_VPC
    public: bool = False
    missing: bool = False


@dataclass(frozen=True)
class Vpc:
    """ParallelCluster's nodes find each other by name, so both have to be on."""

    dns_support: bool = True
    dns_hostnames: bool = True


@dataclass(frozen=True)
class SecurityGroup:
    """`self_*`: a rule for all traffic between members. EFA needs it; `open_*` is not enough."""

    self_inbound: bool = True
    self_outbound: bool = True
    open_inbound: bool = True
    open_outbound: bool = True
    vpc: str = MAIN_VPC
    missing: bool = False


@dataclass(frozen=True)
class Key:
    """An EC2 key pair, `ed25519` or `rsa`."""

    type: str = "ed25519"
    missing: bool = False


@dataclass(frozen=True)
class Image:
    """An AMI. `driver`: NVIDIA's, `open` as in AWS's own images, or `closed`.

    `version` is the version of ParallelCluster that built it; "" means the one installed here, and
    "none" an image that ParallelCluster did not build.
    """

    os: str = ""
    architecture: str = "x86_64"
    driver: str = "closed"
    version: str = ""
    missing: bool = False


@dataclass(frozen=True)
class Bucket:
    """ParallelCluster requires `versioning` for a CustomS3Bucket."""

    region: str = ""
    versioning: bool = True
    missing: bool = False


@dataclass(frozen=True)
class Reservation:
    """Reserved capacity; `kind` is `default` (on demand) or `capacity-block`.

    `group`: the ARN of the resource group that it belongs to, or "".
    """

    instance_type: str = ""
    count: int = 0
    zone: str = ""
    kind: str = "default"
    group: str = ""
    missing: bool = False


@dataclass(frozen=True)
class FileSystem:
    """An existing file system; `kind` is LUSTRE, OPENZFS, ONTAP, EFS, FILECACHE or EBS.

    `reachable`: its security group allows the cluster's nodes. `capacity_gib` 0 means unknown; a
    snapshot has that of its volume.
    """

    kind: str = "LUSTRE"
    zone: str = ""
    vpc: str = MAIN_VPC
    reachable: bool = True
    capacity_gib: int = 0
    missing: bool = False


@dataclass(frozen=True)
class OfficialImages:
    """What distinguishes ParallelCluster's images, where a config selects other ones."""

    owner: str = ""  # "" is AWS, "self" the account
    name_prefix: str = ""
    tags: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Named:
    """A resource of which only the existence matters."""

    missing: bool = False


@dataclass
class Account:
    """One region of an account: its resources by id or name."""

    region: str = "us-east-1"
    subnets: dict[str, Subnet] = field(default_factory=dict)
    vpcs: dict[str, Vpc] = field(default_factory=lambda: {MAIN_VPC: Vpc()})
    security_groups: dict[str, SecurityGroup] = field(default_factory=dict)
    keys: dict[str, Key] = field(default_factory=dict)
    images: dict[str, Image] = field(default_factory=dict)
    official_images: OfficialImages = field(default_factory=OfficialImages)
    buckets: dict[str, Bucket] = field(default_factory=dict)
    objects: dict[str, Named] = field(default_factory=dict)  # s3://bucket/key
    reservations: dict[str, Reservation] = field(default_factory=dict)
    file_systems: dict[str, FileSystem] = field(default_factory=dict)
    placement_groups: dict[str, Named] = field(default_factory=dict)
    addresses: dict[str, Named] = field(default_factory=dict)  # Elastic IPs, such as 34.1.2.3
    others: dict[str, Named] = field(default_factory=dict)  # policies, roles, secrets, ... by ARN


KINDS: dict[str, type] = {
    "subnets": Subnet,
    "vpcs": Vpc,
    "security_groups": SecurityGroup,
    "keys": Key,
    "images": Image,
    "buckets": Bucket,
    "objects": Named,
    "reservations": Reservation,
    "file_systems": FileSystem,
    "placement_groups": Named,
    "addresses": Named,
    "others": Named,
}
