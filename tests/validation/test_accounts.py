from __future__ import annotations

import pytest
import yaml
from single_changes import base_text

from clusterjobs.validation.account import load_overrides, with_overrides
from clusterjobs.validation.default_account import default_account

WIDE = yaml.safe_load(base_text("wide"))


def test_the_default_account_has_every_resource_that_the_config_names() -> None:
    account = default_account(WIDE)
    assert account.subnets.keys() == {"subnet-0a1b2c3d4e5f60001", "subnet-0a1b2c3d4e5f60002"}
    assert account.security_groups.keys() == {"sg-0a1b2c3d4e5f60001", "sg-0a1b2c3d4e5f60002"}
    assert account.keys.keys() == {"lab-key"}
    assert account.images["ami-0a1b2c3d4e5f60001"].os == "ubuntu2204"
    assert account.buckets.keys() == {"lab-data"}
    assert "s3://lab-data/bootstrap/head.sh" in account.objects
    assert {name: found.kind for name, found in account.file_systems.items()} == {
        "fs-0a1b2c3d4e5f60001": "LUSTRE",
        "fs-0a1b2c3d4e5f60002": "EFS",
    }
    assert account.placement_groups.keys() == {"lab-group"}
    reservation = account.reservations["cr-0a1b2c3d4e5f60001"]
    assert (reservation.instance_type, reservation.count) == ("p4d.24xlarge", 4)
    assert reservation.zone == account.subnets["subnet-0a1b2c3d4e5f60002"].zone


def test_a_shared_reservation_is_large_enough_for_all_its_users() -> None:
    resource = {"Name": "a", "InstanceType": "p5.48xlarge", "MaxCount": 3}
    target = {"CapacityReservationId": "cr-1"}
    queue = {
        "CapacityType": "CAPACITY_BLOCK",
        "CapacityReservationTarget": target,
        "ComputeResources": [resource, {**resource, "Name": "b", "MaxCount": 5}],
    }
    account = default_account({"Scheduling": {"SlurmQueues": [queue]}})
    assert account.reservations["cr-1"].count == 8
    assert account.reservations["cr-1"].kind == "capacity-block"


def test_several_subnets_of_a_queue_are_in_zones_of_their_own() -> None:
    pytest.importorskip("moto")
    queue = {
        "Networking": {"SubnetIds": ["subnet-1", "subnet-2", "subnet-3"]},
        "ComputeResources": [{"InstanceType": "c5.large"}],
    }
    account = default_account({"Region": "us-east-1", "Scheduling": {"SlurmQueues": [queue]}})
    assert len({subnet.zone for subnet in account.subnets.values()}) == 3


def test_overrides_replace_defaults_and_add_resources() -> None:
    text = "subnets: {subnet-9: {vpc: other}}\nkeys: {lab-key: {type: rsa}}\n"
    account = with_overrides(default_account(WIDE), load_overrides(text, "account.yaml"))
    assert account.keys["lab-key"].type == "rsa"
    assert account.subnets["subnet-9"].vpc == "other"
    assert account.vpcs.keys() == {"main", "other"}
    assert account.subnets["subnet-0a1b2c3d4e5f60001"].vpc == "main"


def test_the_one_network_that_a_person_names_is_the_main_one() -> None:
    subnets = ("subnet-0a1b2c3d4e5f60001", "subnet-0a1b2c3d4e5f60002")
    text = "".join(f"  {name}: {{vpc: prod}}\n" for name in subnets)
    text = f"subnets:\n{text}vpcs: {{prod: {{dns_hostnames: false}}}}\n"
    account = with_overrides(default_account(WIDE), load_overrides(text, "account.yaml"))
    assert {subnet.vpc for subnet in account.subnets.values()} == {"main"}
    assert {group.vpc for group in account.security_groups.values()} == {"main"}
    assert account.vpcs["main"].dns_hostnames is False


# ------------------------------------------------------------------ a real account


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
def test_with_a_real_account_nothing_is_assumed() -> None:
    """moto replaces the real account: it has the seeded resources, and no others."""
    pytest.importorskip("pcluster")
    pytest.importorskip("moto")
    from clusterjobs.validation import offline, optional_deps
    from clusterjobs.validation.schema import check_config, validate_with_aws

    data = yaml.safe_load(base_text("p4d-a100"))
    with optional_deps.quiet(), offline.simulated_account(default_account(data)):
        good = check_config(data, validate=validate_with_aws)
        data["HeadNode"]["Ssh"]["KeyName"] = "lost"
        bad = check_config(data, validate=validate_with_aws)
    assert {finding.level for finding in good.findings} == {"info"}
    assert ("error", "KeyPairValidator") in {(f.level, f.validator) for f in bad.findings}
