"""Simulates an AWS account in this process: no request leaves the machine.

moto answers most calls. Fake clients replace the ones that it supports too little.
"""

from __future__ import annotations

import base64
import contextlib
import functools
import inspect
import io
import pathlib
from collections.abc import Iterator
from typing import Any, NoReturn
from unittest.mock import patch

from clusterjobs.validation.account import MAIN_VPC, Account, FileSystem
from clusterjobs.validation.moto import patched_moto, seed, storage_group, with_catalogue
from clusterjobs.validation.optional_deps import environment

# ------------------------------------------------------------------ fake clients
# moto supports these services too little, and filling it with data would be more work than
# replacing the few calls that ParallelCluster makes. Each class replaces one of ParallelCluster's
# own clients. Each says which validators of ParallelCluster call it.


_AWS_POLICY = ":iam::aws:policy/"


def fake_clients(account: Account, ec2: Any) -> dict[str, Any]:
    """The fake clients, by the names of the attributes of ParallelCluster's AWSApi."""
    return {
        "_fsx": Fsx(account, ec2),
        "_iam": Iam(account),
        "_kms": Kms(account),
        "_secretsmanager": Secrets(account),
        "_ssm": Parameters(account),
        "_route53": HostedZones(account),
        "_resource_groups": ResourceGroups(account),
    }


class _FakeClient:
    def __init__(self, account: Account) -> None:
        self.account = account

    def require(self, name: str, call: str) -> None:
        """Raise an error if the overrides declare the resource missing; it exists by default."""
        found = self.account.others.get(name)
        if found and found.missing:
            _refuse(call, f"{name} does not exist")


def _refuse(call: str, message: str) -> NoReturn:
    from pcluster.aws.common import AWSClientError

    raise AWSClientError(call, message, "NotFound")


class Fsx(_FakeClient):
    """File systems, volumes, caches and backups.

    ExistingFsxNetworkingValidator: the network of each. FsxBackupIdValidator: the backup exists.
    """

    def __init__(self, account: Account, ec2: Any) -> None:
        super().__init__(account)
        self._interfaces = {
            name: _interface(ec2, account, name)
            for name, found in account.file_systems.items()
            if found.kind not in ("EFS", "EBS") and not found.missing
        }

    def get_file_systems_info(self, names: list[str]) -> list[Any]:
        """The file systems, as ParallelCluster's own FsxStorageInfo."""
        from pcluster.aws.aws_resources import FsxStorageInfo

        return [FsxStorageInfo(self._describe(name, "FileSystem")) for name in names]

    def describe_file_caches(self, names: list[str]) -> list[Any]:
        """As ParallelCluster's own FsxStorageInfo."""
        from pcluster.aws.aws_resources import FsxStorageInfo

        return [FsxStorageInfo(self._describe(name, "FileCache")) for name in names]

    def describe_volumes(self, names: list[str]) -> list[dict[str, Any]]:
        """A volume has the same id as its file system."""
        return [{"VolumeId": name, "FileSystemId": name} for name in names if self._find(name)]

    def describe_backup(self, name: str) -> dict[str, Any]:
        self._find(name)
        return {"BackupId": name, "Lifecycle": "AVAILABLE"}

    def _find(self, name: str) -> FileSystem:
        found = self.account.file_systems.get(name)
        if found is None or found.missing:
            _refuse("describe_file_systems", f"file system {name} does not exist")
        return found

    def _describe(self, name: str, noun: str) -> dict[str, Any]:
        found = self._find(name)
        interface = self._interfaces[name]
        return {
            f"{noun}Id": name,
            f"{noun}Type": "LUSTRE" if noun == "FileCache" else found.kind,
            "VpcId": interface["VpcId"],
            "SubnetIds": [interface["SubnetId"]],
            "NetworkInterfaceIds": [interface["NetworkInterfaceId"]],
        }


def _interface(ec2: Any, account: Account, name: str) -> dict[str, Any]:
    """A network interface in the file system's zone; creates a subnet there if there is none."""
    group = storage_group(ec2, account, name)
    found = account.file_systems[name]
    filters = [{"Name": "availability-zone", "Values": [found.zone]}]
    if found.vpc == MAIN_VPC:
        filters.append({"Name": "vpc-id", "Values": [_vpc_of_group(ec2, group)]})
    subnets = ec2.describe_subnets(Filters=filters)["Subnets"]
    if subnets:
        subnet = subnets[0]["SubnetId"]
    else:
        vpc = _vpc_of_group(ec2, group)
        made = ec2.create_subnet(VpcId=vpc, CidrBlock="10.0.252.0/22", AvailabilityZone=found.zone)
        subnet = made["Subnet"]["SubnetId"]
    interface: dict[str, Any] = ec2.create_network_interface(SubnetId=subnet, Groups=[group])[
        "NetworkInterface"
    ]
    return interface if found.vpc == MAIN_VPC else {**interface, "VpcId": found.vpc}


def _vpc_of_group(ec2: Any, group: str) -> str:
    found: str = ec2.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["VpcId"]
    return found


# ------------------------------------------------------------------ resources with an ARN


class Iam(_FakeClient):
    """Roles and policies: AdditionalIamPolicyValidator, RoleValidator, InstanceProfileValidator.

    The names of AWS's own policies are known, so typos are detected.
    """

    def get_policy(self, iam_policy: str) -> None:
        """AWS's own policies must be in the list of AWS."""
        _, is_aws, name = iam_policy.partition(_AWS_POLICY)
        if is_aws and name.rpartition("/")[2] not in _aws_policies():
            _refuse("get_policy", f"Policy {iam_policy} was not found.")
        self.require(iam_policy, "get_policy")

    def get_role(self, role_name: str) -> None:
        self.require(role_name, "get_role")

    def get_instance_profile(self, instance_profile_name: str) -> None:
        self.require(instance_profile_name, "get_instance_profile")


@functools.cache
def _aws_policies() -> frozenset[str]:
    import json

    from moto.iam.aws_managed_policies import aws_managed_policies_data

    return frozenset(json.loads(aws_managed_policies_data))


class Kms(_FakeClient):
    """Keys: KmsKeyValidator."""

    def describe_key(self, kms_key_id: str) -> None:
        self.require(kms_key_id, "describe_key")


class Secrets(_FakeClient):
    """Secrets, each with a valid munge key.

    PasswordSecretArnValidator: the secret exists. MungeKeySecretSizeAndBase64Validator reads it.
    """

    def describe_secret(self, secret_arn: str) -> None:
        self.require(secret_arn, "describe_secret")

    def get_secret_value(self, secret_arn: str) -> dict[str, str]:
        """128 bytes in base64, which munge accepts."""
        self.require(secret_arn, "get_secret_value")
        return {"SecretString": base64.b64encode(bytes(128)).decode()}


class Parameters(_FakeClient):
    """Parameters of the Systems Manager: PasswordSecretArnValidator, in us-isob-east-1 alone."""

    def get_parameter(self, name: str) -> None:
        self.require(name, "get_parameter")


class HostedZones(_FakeClient):
    """Private zones of the cluster's own network: HostedZoneValidator."""

    def get_hosted_zone_domain_name(self, hosted_zone_id: str) -> str:
        """Short enough for every cluster name."""
        self.require(hosted_zone_id, "get_hosted_zone")
        return "cluster.local"

    def get_hosted_zone_vpcs(self, hosted_zone_id: str) -> _AnyNetwork:
        """Every network, so that the zone always belongs to the cluster's."""
        self.require(hosted_zone_id, "get_hosted_zone")
        return _AnyNetwork()

    def is_hosted_zone_private(self, hosted_zone_id: str) -> bool:
        """True, since no zone can be asked for offline."""
        self.require(hosted_zone_id, "get_hosted_zone")
        return True


class _AnyNetwork(list[str]):
    def __contains__(self, _network: object) -> bool:
        return True


class ResourceGroups(_FakeClient):
    """Groups of capacity reservations: CapacityReservationResourceGroupValidator."""

    def get_capacity_reservation_ids_from_group_resources(self, group: str) -> list[str]:
        """The group's own reservations, or every one of the account if none names its group."""
        self.require(group, "list_group_resources")
        found = [(name, one) for name, one in self.account.reservations.items() if not one.missing]
        members = [name for name, one in found if one.group == group]
        return members or [name for name, _ in found]

    def get_group_configuration(self, group: str) -> dict[str, Any]:
        """The configuration of a group for capacity reservations."""
        self.require(group, "get_group_configuration")
        kind = [{"Type": "AWS::EC2::CapacityReservationPool"}]
        return {"GroupConfiguration": {"Configuration": kind}}


def offline_environment(region: str) -> dict[str, str | None]:
    """Invalid credentials, and no access to real ones."""
    return {
        "AWS_DEFAULT_REGION": region,
        "AWS_REGION": None,
        "AWS_PROFILE": None,
        "AWS_ENDPOINT_URL": None,
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_SESSION_TOKEN": None,
        "AWS_SECURITY_TOKEN": None,
        "AWS_CONFIG_FILE": "/dev/null",
        "AWS_SHARED_CREDENTIALS_FILE": "/dev/null",
        "AWS_EC2_METADATA_DISABLED": "true",
        "MOTO_ACCOUNT_ID": None,
        "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
    }


@contextlib.contextmanager
def simulated_account(account: Account) -> Iterator[None]:
    """Within this context, calls of ParallelCluster and boto3 read the simulated account."""
    with environment(offline_environment(account.region)):
        import boto3

        with _one_session(), _mocked(account), _no_network():
            seed(account)
            with _clients_replaced(fake_clients(account, boto3.client("ec2", account.region))):
                yield


@contextlib.contextmanager
def _mocked(account: Account) -> Iterator[None]:
    """Import and start moto. Its import reads the regions from boto3, so the session must exist."""
    from moto import mock_aws

    with mock_aws(), patched_moto(account), with_catalogue(account.region):
        yield


@contextlib.contextmanager
def _clients_replaced(clients: dict[str, Any]) -> Iterator[None]:
    import pcluster.validators.iam_validators
    from pcluster.aws.aws_api import AWSApi

    AWSApi.reset()
    vars(AWSApi.instance()).update(clients)
    try:
        with patch.object(pcluster.validators.iam_validators, "IamClient", lambda: clients["_iam"]):
            yield
    finally:
        AWSApi.reset()


@contextlib.contextmanager
def _one_session() -> Iterator[None]:
    """Use one boto3 session and one loader for everything.

    boto3's default session keeps the caller's credentials. ParallelCluster creates a new session
    for every call, to log it, which takes longer than the call. The loader caches the descriptions
    of the services, which are megabytes of JSON.
    """
    import boto3
    import botocore.session
    import pcluster.aws.common

    loader = _loader()
    with patch.object(botocore.session, "create_loader", lambda *_: loader):
        session = _session()
        with (
            patch.object(boto3, "DEFAULT_SESSION", session),
            patch.object(boto3.session, "Session", lambda: session),
            patch.object(pcluster.aws.common, "_log_boto3_calls", lambda **_: None),
        ):
            yield


@functools.cache
def _loader() -> Any:
    import botocore.loaders

    return botocore.loaders.create_loader()


@functools.cache
def _session() -> Any:
    import boto3

    return boto3.session.Session()


@contextlib.contextmanager
def _no_network() -> Iterator[None]:
    """Replace the requests that bypass boto3: ParallelCluster's list of regions, and its URLs."""
    import pcluster
    import pcluster.utils
    import pcluster.validators.s3_validators

    # A release before 3.12 has no such list: its regions are in its code.
    regions = getattr(pcluster.utils, "retrieve_supported_regions", None)
    listed = pathlib.Path(pcluster.__file__).parent / "resources" / "supported-regions"
    names = listed.read_text(encoding="utf-8").split() if regions else []

    def urlopen(_url: Any, *_args: Any, **_kwargs: Any) -> io.BytesIO:
        return io.BytesIO()

    validator = pcluster.validators.s3_validators.UrlValidator
    # It caches results by URL for ten seconds; they may be those of another account.
    inspect.getclosurevars(validator._validate_async).nonlocals["_cache"].clear()
    with (
        patch.object(regions, "cache", names, create=True) if regions else contextlib.nullcontext(),
        patch.object(pcluster.validators.s3_validators, "urlopen", urlopen),
    ):
        yield
