"""Adds EC2 calls to moto that ParallelCluster's validators make and that moto lacks or gets wrong.

This module knows moto's internals (5.2); it must not know configs. The calls are added only while
an account is simulated, in this process or by a server in this process.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from clusterjobs.parallelcluster.validation.account import NUMBER, Account, Reservation


@contextlib.contextmanager
def patched_moto(account: Account) -> Iterator[None]:
    """Patch moto with the missing calls, which read the account."""
    from moto.ec2.responses import EC2Response
    from moto.ec2.responses.instances import InstanceResponse

    added = {
        "describe_placement_groups": _placement_groups(account),
        "describe_capacity_reservations": _reservations(account),
        "describe_capacity_block_status": _block_status(account),
    }
    with contextlib.ExitStack() as stack:
        for name, method in added.items():
            stack.enter_context(patch.object(EC2Response, name, method, create=True))
        stack.enter_context(patch.object(InstanceResponse, "run_instances", _run_instances))
        yield


def _placement_groups(account: Account) -> Any:
    def describe_placement_groups(self: Any) -> Any:
        names = self._get_param("GroupNames", []) or list(account.placement_groups)
        for name in names:
            _refuse_missing(account.placement_groups, name, "InvalidPlacementGroup.Unknown")
        return _result("PlacementGroups", [{"GroupName": name} for name in names])

    return describe_placement_groups


def _reservations(account: Account) -> Any:
    def describe_capacity_reservations(self: Any) -> Any:
        names = self._get_param("CapacityReservationIds", []) or list(account.reservations)
        for name in names:
            _refuse_missing(account.reservations, name, "InvalidCapacityReservationId.NotFound")
        found = [_reservation(name, account.reservations[name], account.region) for name in names]
        return _result("CapacityReservations", found)

    return describe_capacity_reservations


def _block_status(account: Account) -> Any:
    def describe_capacity_block_status(_self: Any) -> Any:
        statuses = [
            {"CapacityReservationId": name, "TotalCapacity": found.count}
            for name, found in account.reservations.items()
        ]
        healthy = {"InterconnectStatus": "ok", "CapacityReservationStatuses": statuses}
        return _result("CapacityBlockStatuses", [healthy])

    return describe_capacity_block_status


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
    """The checks of EC2's RunInstances with DryRun. moto would launch, and fail for some disks."""
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
