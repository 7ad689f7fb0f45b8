"""A make-believe AWS account: what ParallelCluster's schema and validators ask for, and no more.

`schema_only` answers the two questions that loading a config asks. `account` is moto with a VPC,
a key, a bucket and images in it, and with the calls that moto lacks.
"""

from __future__ import annotations

import contextlib
import os
import types
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

REGION = "us-east-1"
ZONE = "us-east-1c"  # of those that have p3dn, p4d, p4de and p5
ACCOUNT = "123456789012"
SITE: dict[str, object] = {
    "region": REGION,
    "public_subnet": "subnet-0a1b2c3d4e5f60001",
    "private_subnet": "subnet-0a1b2c3d4e5f60002",
    "key_name": "lab",
    "custom_ami": "ami-0a1b2c3d4e5f60001",
    "bucket": "lab-data",
}
_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": REGION,
    "AWS_ACCESS_KEY_ID": "testing",
    "AWS_SECRET_ACCESS_KEY": "testing",
    "AWS_EC2_METADATA_DISABLED": "true",
    "MOTO_EC2_LOAD_DEFAULT_AMIS": "false",
}


@contextlib.contextmanager
def schema_only() -> Iterator[None]:
    """Loading a config asks for the region and for capacity reservations, nothing else."""
    from pcluster.aws.aws_api import AWSApi

    ec2 = types.SimpleNamespace(describe_capacity_reservations=lambda ids: [])
    stand_in = types.SimpleNamespace(aws_region=REGION, ec2=ec2)
    with patch.dict(os.environ, _ENVIRONMENT), patch.object(AWSApi, "_instance", stand_in):
        yield


@contextlib.contextmanager
def account(ami_description: str = "our own image") -> Iterator[None]:
    """The account that SITE speaks of; its custom image bears the given description."""
    with patch.dict(os.environ, _ENVIRONMENT):
        import pcluster.utils
        from moto import mock_aws
        from pcluster.aws.aws_api import AWSApi

        # Else it asks a bucket of AWS's for the regions.
        ask = pcluster.utils.retrieve_supported_regions
        regions = patch.object(ask, "cache", [REGION], create=True)
        with mock_aws(), _missing_calls(), regions:
            _make_network()
            _make_images(ami_description)
            AWSApi.reset()
            yield
            AWSApi.reset()


@contextlib.contextmanager
def _missing_calls() -> Iterator[None]:
    """moto has no placement groups, and runs no instance only to say that it could."""
    from moto.core.responses import ActionResult
    from moto.ec2.responses import EC2Response
    from moto.ec2.responses.instances import InstanceResponse

    def placement_groups(self: Any) -> Any:
        return ActionResult({"PlacementGroups": []})

    def dry_run(self: Any) -> None:
        self.ec2_backend.describe_images(ami_ids=[self._get_param("ImageId")])
        for interface in self._get_param("NetworkInterfaces", []):
            self.ec2_backend.get_subnet(interface["SubnetId"])
        self.error_on_dryrun()

    with (
        patch.object(EC2Response, "describe_placement_groups", placement_groups, create=True),
        patch.object(InstanceResponse, "run_instances", dry_run),
    ):
        yield


def _make_network() -> None:
    import boto3

    ec2 = boto3.client("ec2", REGION)
    vpc = ec2.create_vpc(CidrBlock="10.0.0.0/16")["Vpc"]["VpcId"]
    ec2.modify_vpc_attribute(VpcId=vpc, EnableDnsHostnames={"Value": True})
    for number, name in enumerate(("public_subnet", "private_subnet")):
        with patch("moto.ec2.models.subnets.random_subnet_id", return_value=SITE[name]):
            ec2.create_subnet(
                VpcId=vpc, CidrBlock=f"10.0.{16 * number}.0/20", AvailabilityZone=ZONE
            )
    ec2.create_key_pair(KeyName=SITE["key_name"], KeyType="ed25519")  # Ubuntu refuses RSA
    boto3.client("s3", REGION).create_bucket(Bucket=SITE["bucket"])


def _make_images(ami_description: str) -> None:
    from moto.ec2.models import ec2_backends
    from moto.ec2.models.amis import Ami
    from pcluster.constants import OS_TO_IMAGE_NAME_PART_MAP
    from pcluster.utils import get_installed_version

    version = get_installed_version()
    official = f"aws-parallelcluster-{version}-{OS_TO_IMAGE_NAME_PART_MAP['ubuntu2204']}-x86_64-1"
    backend = ec2_backends[ACCOUNT][REGION]

    def make(ami: str, name: str, description: str, **more: Any) -> None:
        backend.amis[ami] = Ami(
            backend,
            ami,
            name=name,
            description=description,
            architecture="x86_64",
            virtualization_type="hvm",
            root_device_type="ebs",
            region_name=ZONE,
            public=True,
            **more,
        )

    make("ami-0fffffffffffff001", official, "AWS ParallelCluster AMI", owner_alias="amazon")
    tags = {  # as `pcluster build-image` leaves them
        "parallelcluster:version": version,
        "parallelcluster:os": "ubuntu2204",
        "parallelcluster:build_status": "available",
    }
    make(str(SITE["custom_ami"]), "ours", ami_description, tags=tags)
