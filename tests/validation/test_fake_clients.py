"""Services that fake clients replace: what a config names exists, unless a person says else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest
import yaml
from single_changes import base_text, find_problems

from clusterjobs.errors import Problem

pytestmark = [pytest.mark.aws, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pcluster")
pytest.importorskip("moto")

AWS = "arn:aws:{}:us-east-1:123456789012:{}"
ROLE = "arn:aws:iam::123456789012:role/nodes"
PROFILE = "arn:aws:iam::123456789012:instance-profile/nodes"
KMS = "1a2b3c4d-1a2b-3c4d-5e6f-1a2b3c4d5e6f"
SECRET = AWS.format("secretsmanager", "secret:password-a1b2c3")
MUNGE = AWS.format("secretsmanager", "secret:munge-a1b2c3")
ZONE = "Z0123456789ABCDEFGHIJ"


class Case(NamedTuple):
    """A change of a config, the id of what is missing, and the validator that then reports it."""

    change: Callable[[dict[str, Any]], object]
    missing: str
    validator: str
    kind: str = "others"


def directory(secret: str) -> Callable[[dict[str, Any]], object]:
    service = {
        "DomainName": "dc=corp,dc=example,dc=com",
        "DomainAddr": "ldaps://corp.example.com",
        "PasswordSecretArn": secret,
        "DomainReadOnlyUser": "cn=reader,dc=corp,dc=example,dc=com",
    }
    return lambda data: data.update(DirectoryService=service)


def storage(kind: str, **settings: object) -> Callable[[dict[str, Any]], object]:
    entry = {"Name": "more", "MountDir": "/more", "StorageType": kind, f"{kind}Settings": settings}
    return lambda data: data["SharedStorage"].append(entry)


def slurm(**settings: object) -> Callable[[dict[str, Any]], object]:
    return lambda data: data["Scheduling"].setdefault("SlurmSettings", {}).update(settings)


def head_iam(**settings: object) -> Callable[[dict[str, Any]], object]:
    return lambda data: data["HeadNode"].update(Iam=settings)


CASES = {
    "role": Case(head_iam(InstanceRole=ROLE), "nodes", "RoleValidator"),
    "profile": Case(head_iam(InstanceProfile=PROFILE), "nodes", "InstanceProfileValidator"),
    "key": Case(storage("Ebs", Encrypted=True, KmsKeyId=KMS), KMS, "KmsKeyValidator"),
    "secret": Case(directory(SECRET), SECRET, "PasswordSecretArnValidator"),
    "munge key": Case(
        slurm(MungeKeySecretArn=MUNGE), MUNGE, "MungeKeySecretSizeAndBase64Validator"
    ),
    "zone": Case(slurm(Dns={"HostedZoneId": ZONE}), ZONE, "HostedZoneValidator"),
    "file cache": Case(
        storage("FileCache", FileCacheId="fc-0123456789abcdef0"),
        "fc-0123456789abcdef0",
        "ExistingFsxNetworkingValidator",
        "file_systems",
    ),
    "volume of OpenZFS": Case(
        storage("FsxOpenZfs", VolumeId="fsvol-0123456789abcdef0"),
        "fsvol-0123456789abcdef0",
        "ExistingFsxNetworkingValidator",
        "file_systems",
    ),
    "volume of ONTAP": Case(
        storage("FsxOntap", VolumeId="fsvol-0123456789abcdef0"),
        "fsvol-0123456789abcdef0",
        "ExistingFsxNetworkingValidator",
        "file_systems",
    ),
    "backup": Case(
        lambda data: data["SharedStorage"][0].update(
            FsxLustreSettings={"BackupId": "backup-0123456789abcdef0"}
        ),
        "backup-0123456789abcdef0",
        "FsxBackupIdValidator",
        "file_systems",
    ),
}


def problems_of(case: Case, account: dict[str, Any]) -> list[Problem]:
    data = yaml.safe_load(base_text("p4d-a100"))
    case.change(data)
    return find_problems(yaml.safe_dump(data, sort_keys=False), account)


@pytest.mark.parametrize("name", CASES)
def test_what_a_config_names_exists_unless_a_person_says_else(name: str) -> None:
    case = CASES[name]
    before = problems_of(case, {})
    assert [one.what for one in before if not one.warning] == []
    missing = problems_of(case, {case.kind: {case.missing: {"missing": True}}})
    validators = {one.validator for one in missing if one not in before}
    assert validators & {case.validator, "AWSClientError"}, missing
