"""The capacity reservations of the default account: of the types, zones and sizes that are used.

This module knows where a config names reservations and groups of them; it must not know how an
account is simulated.
"""

from __future__ import annotations

from typing import Any

from clusterjobs.parallelcluster.coerce import at, number, text
from clusterjobs.parallelcluster.validation import walk
from clusterjobs.parallelcluster.validation.account import Account, Reservation
from clusterjobs.parallelcluster.validation.walk import Data


def default_reservations(data: Data, account: Account) -> dict[str, Reservation]:
    """With type and zone of the first compute resource that uses it, large enough for all users."""
    found: dict[str, Reservation] = {}
    for queue in walk.queues(data):
        block = text(at(queue[1], "CapacityType")) == "CAPACITY_BLOCK"
        for _, entry in walk.compute_resources(queue):
            if group := _target(entry, queue[1], _GROUP):
                found |= _members(group, queue[1], entry, account, block)
            name = _target(entry, queue[1], _RESERVATION)
            if not name:
                continue
            before = found.get(name, Reservation())
            found[name] = Reservation(
                before.instance_type or next(iter(walk.instance_types(entry)), "c5.large"),
                before.count + (number(at(entry, "MaxCount")) or 10),
                before.zone or zone_of_queue(queue[1], account),
                "capacity-block" if block else before.kind,
            )
    return found


_RESERVATION, _GROUP = "CapacityReservationId", "CapacityReservationResourceGroupArn"


def _target(resource: Any, queue: Any, key: str) -> str | None:
    """Of CapacityReservationTarget: a compute resource's own goes before its queue's."""
    owners = (at(owner, "CapacityReservationTarget") for owner in (resource, queue))
    return text(at(next((found for found in owners if found), None), key))


def _members(
    group: str, queue: Data, resource: Data, account: Account, block: bool
) -> dict[str, Reservation]:
    """A reservation of the group for each type in each zone, so that the group serves the nodes."""
    kind = "capacity-block" if block else "default"
    count = number(at(resource, "MaxCount")) or 10
    zones = {account.subnets[name].zone for name in walk.subnet_ids(queue)}
    return {
        f"cr-of-{group.rpartition('/')[2]}-{kind_of_node}-{zone}": Reservation(
            kind_of_node, count, zone, kind, group
        )
        for kind_of_node in walk.instance_types(resource)
        for zone in sorted(zones)
    }


def zone_of_queue(queue: Data, account: Account) -> str:
    """The zone of the queue's first subnet, which must be in the account already."""
    subnets = [account.subnets[name] for name in walk.subnet_ids(queue)]
    return subnets[0].zone if subnets else f"{account.region}a"
