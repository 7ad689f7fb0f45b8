"""What is assumed of an account fits the config, what a person said, and all else assumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import yaml
from single_changes import base_text, find_problems

from clusterjobs.errors import Problem

pytestmark = [pytest.mark.aws, pytest.mark.filterwarnings("ignore")]
pytest.importorskip("pcluster")
pytest.importorskip("moto")

HEAD, NODES = "subnet-0a1b2c3d4e5f60001", "subnet-0a1b2c3d4e5f60002"
GROUP = "arn:aws:resource-groups:us-east-1:123456789012:group/mine"
Change = Callable[[dict[str, Any], dict[str, Any]], object]


def problems_of(change: Change, account: dict[str, Any] | None = None) -> list[Problem]:
    """The problems of p4d-a100 with a change of (the config, its queue)."""
    data = yaml.safe_load(base_text("p4d-a100"))
    change(data, data["Scheduling"]["SlurmQueues"][0])
    return find_problems(yaml.safe_dump(data, sort_keys=False), account)


def errors_of(change: Change, account: dict[str, Any] | None = None) -> list[str]:
    return [one.what for one in problems_of(change, account) if not one.warning]


def storage(kind: str, **settings: object) -> Change:
    entry = {"Name": "more", "MountDir": "/more", "StorageType": kind, f"{kind}Settings": settings}
    return lambda data, _: data["SharedStorage"].append(entry)


# ------------------------------------------------------------------ reservations


@pytest.mark.parametrize("of_queue", [True, False])
def test_a_group_of_reservations_serves_the_nodes(of_queue: bool) -> None:
    target = {"CapacityReservationTarget": {"CapacityReservationResourceGroupArn": GROUP}}

    def change(_: dict[str, Any], queue: dict[str, Any]) -> None:
        (queue if of_queue else queue["ComputeResources"][0]).update(target)

    assert errors_of(change) == []
    zone = {"subnets": {NODES: {"zone": "us-east-1c"}}}
    assert errors_of(change, zone) == []


def test_of_a_group_only_its_own_reservations_count() -> None:
    target = {"CapacityReservationResourceGroupArn": GROUP}
    account = {"reservations": {"cr-0a1b2c3d4e5f60009": {"group": GROUP, "zone": "us-east-1d"}}}
    account["reservations"]["cr-of-mine-p4d.24xlarge-us-east-1d"] = {"missing": True}
    problems = errors_of(lambda _, queue: queue.update(CapacityReservationTarget=target), account)
    assert any("p4d.24xlarge" in what for what in problems)


# ------------------------------------------------------------------ zones


@pytest.mark.parametrize(
    "change",
    [
        lambda data, _: None,
        lambda _, queue: queue["ComputeResources"][0].update(
            CapacityReservationTarget={"CapacityReservationId": "cr-0123456789abcdef0"}
        ),
        storage("Ebs", VolumeId="vol-0123456789abcdef0"),
        storage("FsxLustre", FileSystemId="fs-0123456789abcdef0"),
        storage("Efs", FileSystemId="fs-0123456789abcdef0"),
    ],
    ids=["nothing", "reservation", "volume", "lustre", "efs"],
)
@pytest.mark.parametrize("subnet", [HEAD, NODES])
def test_what_is_assumed_is_in_the_zone_that_a_person_gave(change: Change, subnet: str) -> None:
    given = {"subnets": {subnet: {"zone": "us-east-1c"}}}
    before = {(p.what, p.warning) for p in problems_of(change)}
    after = {(p.what, p.warning) for p in problems_of(change, given)}
    assert after == before


@pytest.mark.parametrize("kind", ["FsxLustre", "Efs"])
def test_a_file_system_is_assumed_in_the_network_that_a_person_gave(kind: str) -> None:
    change = storage(kind, FileSystemId="fs-0123456789abcdef0")
    given: dict[str, Any] = {"subnets": {HEAD: {"vpc": "prod"}, NODES: {"vpc": "prod"}}}
    assert errors_of(change, given) == []
    given["file_systems"] = {"fs-0123456789abcdef0": {"vpc": "other"}}
    assert kind == "Efs" or any("same VPC" in what for what in errors_of(change, given))


def test_subnets_are_assumed_where_a_given_reservation_is() -> None:
    target = {"CapacityReservationId": "cr-0123456789abcdef0"}
    given = {"reservations": {"cr-0123456789abcdef0": {"zone": "us-east-1c"}}}
    change: Change = lambda _, queue: queue.update(CapacityReservationTarget=target)  # noqa: E731
    assert errors_of(change, given) == []


def test_two_zones_that_a_person_gave_may_contradict() -> None:
    target = {"CapacityReservationId": "cr-0123456789abcdef0"}
    given = {
        "reservations": {"cr-0123456789abcdef0": {"zone": "us-east-1c"}},
        "subnets": {NODES: {"zone": "us-east-1a"}},
    }
    change: Change = lambda _, queue: queue.update(CapacityReservationTarget=target)  # noqa: E731
    assert any("same availability zone" in what for what in errors_of(change, given))


# ------------------------------------------------------------------ snapshots and images


@pytest.mark.parametrize("size", [None, 50, 500])
def test_a_snapshot_is_as_large_as_its_volume(size: int | None) -> None:
    more = {"Size": size} if size else {}
    found = problems_of(storage("Ebs", SnapshotId="snap-0123456789abcdef0", **more))
    assert not [one for one in found if "napshot" in one.what]


def test_a_snapshot_of_a_given_size_may_be_too_large() -> None:
    change = storage("Ebs", SnapshotId="snap-0123456789abcdef0", Size=50)
    given = {"file_systems": {"snap-0123456789abcdef0": {"capacity_gib": 100}}}
    assert any("must not be smaller than 100" in what for what in errors_of(change, given))


@pytest.mark.parametrize(
    "filters",
    [
        {"Owner": "999988887777"},
        {"Owner": "self"},
        {"Owner": "amazon", "Tags": [{"Key": "a", "Value": "b"}]},
        {"Tags": [{"Key": "a", "Value": "b"}]},
        {"Owner": "999988887777", "NamePrefix": "mine-"},
    ],
)
def test_the_images_that_a_filter_selects_exist(filters: dict[str, Any]) -> None:
    dev = {"AmiSearchFilters": filters}
    assert errors_of(lambda data, _: data.update(DevSettings=dev)) == []


# ------------------------------------------------------------------ addresses and groups


def test_an_elastic_ip_exists_unless_it_is_said_to_be_missing() -> None:
    def change(data: dict[str, Any], _: object) -> None:
        data["HeadNode"]["Networking"]["ElasticIp"] = "34.1.2.3"

    assert errors_of(change) == []
    (error,) = errors_of(change, {"addresses": {"34.1.2.3": {"missing": True}}})
    assert "not found" in error


def test_the_network_of_lambda_functions_exists() -> None:
    network = {"SubnetIds": [HEAD], "SecurityGroupIds": ["sg-0123456789abcdef0"]}
    settings = {"DeploymentSettings": {"LambdaFunctionsVpcConfig": network}}
    assert errors_of(lambda data, _: data.update(settings)) == []


# ------------------------------------------------------------------ regions and instance types


def test_a_misspelt_region_is_named_also_with_zones_of_an_account() -> None:
    given = {"subnets": {NODES: {"zone": "us-east-1c"}}}
    note, problem = problems_of(lambda data, _: data.update(Region="us-esat-1"), given)
    assert "validators were not asked" in note.what
    assert problem.what == "ParallelCluster supports no region 'us-esat-1'"
    assert problem.hint == "did you mean us-east-1?"


def with_type(kind: str) -> Change:
    resource = {"Name": "n", "InstanceType": kind, "MaxCount": 2}
    return lambda _, queue: queue.update(ComputeResources=[resource], HealthChecks={})


@pytest.mark.parametrize("kind", ["p6e-gb200.36xlarge", "g4ad.xlarge", "p2.xlarge", "dl1.24xlarge"])
def test_a_type_that_moto_lacks_and_aws_has_exists(kind: str) -> None:
    wrong = ("do not exist", "not offered", "not supported in your requested Availability Zone")
    found = errors_of(with_type(kind))
    assert not [what for what in found if any(part in what for part in wrong)]


def test_a_misspelt_type_is_answered_with_the_nearest() -> None:
    note, problem = problems_of(with_type("p4d.24xlage"))
    assert note.info
    assert note.what.startswith(
        "ParallelCluster's validators were not asked, since they do not know"
    )
    assert not problem.warning
    assert "is not among EC2's types of 20" in problem.what
    assert problem.hint.startswith("did you mean p4d.24xlarge?")


def test_a_type_newer_than_the_catalogue_is_not_refused() -> None:
    _, problem = problems_of(with_type("p99-x100.48xlarge"))
    assert problem.warning
    assert "nothing was checked with it" in problem.what
    assert "--aws" in problem.hint


# ------------------------------------------------------------------ positions


@pytest.mark.parametrize("memory", [0, 99_999_999])
@pytest.mark.parametrize("several", [True, False])
def test_memory_that_cannot_be_is_reported_at_its_key(memory: int, several: bool) -> None:
    types: dict[str, Any] = {"InstanceType": "c5.large"}
    if several:
        types = {"Instances": [{"InstanceType": "c5.large"}, {"InstanceType": "c5a.large"}]}
    resource = {"Name": "two", "MaxCount": 2, "SchedulableMemory": memory, **types}
    found = problems_of(lambda _, queue: queue["ComputeResources"].append(resource))
    about = [one for one in found if one.validator == "SchedulableMemoryValidator"]
    assert about
    assert {one.path.rpartition("]")[2] for one in about} == {".SchedulableMemory"}
    assert all(one.where and "SchedulableMemory" in one.where.source for one in about)
