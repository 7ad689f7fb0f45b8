"""The resources of an AWS account that a cluster config can refer to.

`default_account.py` derives an account from a config; a user can override its values.
"""

import dataclasses
import functools
import gzip
import importlib.util
import json
import pathlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, get_args, get_origin, get_type_hints

from pydantic import BeforeValidator, create_model

from clusterjobs.errors import InputError, Problem
from clusterjobs.spec.field_types import Flag, LiteralText, integer
from clusterjobs.spec.model import SpecModel
from clusterjobs.spec.validate import check_model
from clusterjobs.yaml.document import load

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


# The resources that a file of overrides can name, each with its record.
KINDS: dict[str, type] = {
    name: get_args(kind)[1]
    for name, kind in get_type_hints(Account).items()
    if get_origin(kind) is dict
}


# ------------------------------------------------------------------ offerings
# Which region and zone offers an instance type: EC2's own lists, from moto's data files.
# Without the extra nothing is known, and the functions return None.


# ParallelCluster 3.16.1, pcluster/resources/supported-regions
_REGIONS = (
    "af-south-1 ap-east-1 ap-northeast-1 ap-northeast-2 ap-south-1 ap-southeast-1 ap-southeast-2 "
    "ap-southeast-3 ap-southeast-5 ap-southeast-7 ca-central-1 cn-north-1 cn-northwest-1 "
    "eu-central-1 eu-north-1 eu-south-1 eu-west-1 eu-west-2 eu-west-3 il-central-1 me-south-1 "
    "sa-east-1 us-east-1 us-east-2 us-gov-east-1 us-gov-west-1 us-iso-east-1 us-iso-west-1 "
    "us-isob-east-1 us-west-1 us-west-2"
)


def region_names() -> list[str]:
    return _REGIONS.split()


def zones_of_type(instance_type: str, region: str) -> tuple[str, ...] | None:
    """The zones of a region that offer the type; None if that is unknown."""
    offered = _offered(region)
    return None if offered is None else offered.get(instance_type, ())


def offered_nowhere(instance_type: str) -> bool:
    """Whether no region's list has the type, so that it is unknown where AWS offers it."""
    offers = (zones_of_type(instance_type, region) for region in region_names())
    return not any(offers)


def best_zones(
    instance_types: Sequence[str], region: str, preferred: Sequence[str] = ()
) -> list[str]:
    """All zones of a region, first those that offer most of the types; never empty.

    Of zones that are equally good, the `preferred` ones are first.
    """
    offered = _offered(region) or {}
    zones = sorted({zone for some in offered.values() for zone in some}) or [f"{region}a"]
    return sorted(
        zones,
        key=lambda zone: (
            -sum(zone in offered.get(kind, ()) for kind in instance_types),
            zone not in preferred,
        ),
    )


@functools.cache
def _offered(region: str) -> dict[str, tuple[str, ...]] | None:
    file = _data_folder() / f"{region}.json.gz"
    if not file.is_file():
        return None
    with gzip.open(file, "rt", encoding="utf-8") as stream:
        rows: list[dict[str, str]] = json.load(stream)
    found: dict[str, list[str]] = {}
    for row in rows:
        found.setdefault(row["InstanceType"], []).append(row["Location"])
    return {kind: tuple(sorted(zones)) for kind, zones in found.items()}


@functools.cache
def _data_folder() -> pathlib.Path:
    spec = importlib.util.find_spec("moto")
    origin = spec.origin if spec else None
    folder = pathlib.Path(origin).parent if origin else pathlib.Path("/nonexistent")
    return folder / "ec2" / "resources" / "instance_type_offerings" / "availability-zone"


# ------------------------------------------------------------------ account overrides
# `--account FILE`: a user's overrides for the simulated account.
#
#     subnets: {subnet-0123456789abcdef0: {zone: us-east-1a}}
#     keys: {my-key: {type: rsa}}


Overrides = dict[str, dict[str, dict[str, Any]]]  # kind -> id -> attribute -> value

_TYPES = {bool: Flag, int: Annotated[int, BeforeValidator(integer)], str: LiteralText}


@functools.cache
def _model() -> type[SpecModel]:
    """The keys of the file: of each resource, any of its attributes."""
    models: dict[str, Any] = {}
    for kind, record in KINDS.items():
        types = get_type_hints(record).items()
        fields: Any = {name: (_TYPES[type_], None) for name, type_ in types}
        models[kind] = (dict[str, create_model(kind, __base__=SpecModel, **fields)], {})  # type: ignore[misc]
    return create_model("Overrides", __base__=SpecModel, **models)


def _map(value: Any, inner: Callable[[Any], Any] = lambda value: value) -> Any:
    """A map whose values are `inner` of the file's; a name without a value has an empty one."""
    if isinstance(value, dict):
        return {name: inner(one) for name, one in value.items()}
    return {} if value is None else value


def load_overrides(text: str, file: str) -> Overrides:
    """The overrides in a file. Raises InputError with all problems of the file."""
    document = load(text, file)
    problems: list[Problem] = []
    kinds = _map(document.value, lambda names: _map(names, _map))
    found = check_model(_model(), kinds, document, problems)
    if problems:
        raise InputError(problems)
    overrides: Overrides = found.model_dump(exclude_unset=True)
    return overrides


def with_overrides(account: Account, overrides: Overrides) -> Account:
    """The account with the overrides applied.

    Raises InputError for zones that its region does not have.
    """
    _refuse_zones(account.region, overrides)
    result = dataclasses.replace(account)
    for kind, entries in overrides.items():
        known: dict[str, Any] = dict(getattr(account, kind))
        for name, values in entries.items():
            known[name] = dataclasses.replace(known.get(name) or KINDS[kind](), **values)
        setattr(result, kind, known)
    _join_main_vpc(result)
    named = {subnet.vpc for subnet in result.subnets.values()}
    named |= {group.vpc for group in result.security_groups.values()}
    result.vpcs |= {name: Vpc() for name in sorted(named - result.vpcs.keys())}
    return result


def _join_main_vpc(account: Account) -> None:
    """Make the one VPC with a name that has all subnets the main one, where all else is assumed."""
    names = {subnet.vpc for subnet in account.subnets.values()}
    if len(names) != 1 or names == {MAIN_VPC}:
        return
    (name,) = names
    for kind in ("subnets", "security_groups", "file_systems"):
        known: dict[str, Any] = getattr(account, kind)
        moved = {key: dataclasses.replace(one, vpc=MAIN_VPC) for key, one in known.items()
                 if one.vpc == name}  # fmt: skip
        setattr(account, kind, {**known, **moved})
    account.vpcs = {**account.vpcs, MAIN_VPC: account.vpcs.get(name) or account.vpcs[MAIN_VPC]}


def given_zones(overrides: Overrides) -> dict[str, str]:
    """The zones of the overrides, by the resource's name."""
    return {
        name: values["zone"]
        for entries in overrides.values()
        for name, values in entries.items()
        if values.get("zone")
    }


def _refuse_zones(region: str, overrides: Overrides) -> None:
    if region not in region_names():
        return  # a misspelt region is a finding of its own, and nothing is known of its zones
    zones = best_zones((), region)
    problems = [
        Problem(f"{region} has no zone {zone}", path=f"{kind}.{name}.zone", hint=", ".join(zones))
        for kind, entries in overrides.items()
        for name, values in entries.items()
        if (zone := values.get("zone")) and zone not in zones
    ]
    if problems:
        raise InputError(problems)
