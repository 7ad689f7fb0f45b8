"""Hints for results of ParallelCluster's validators whose text does not say what to change."""

from __future__ import annotations

# Validator, a part of its text ("" for any), and the hint.
_HINTS: tuple[tuple[str, str, str], ...] = (
    (
        "InstanceTypeBaseAMICompatibleValidator",
        "OpenRM",
        "official images contain NVIDIA's open driver, which does not support V100 and older GPUs: "
        "set CustomAmi to an image with the closed driver, and without 'AWS ParallelCluster AMI' "
        "in its description; cluster-configs/p3dn-v100.yaml explains how to build it",
    ),
    (
        "EfaPlacementGroupValidator",
        "",
        "EFA reaches its low latency only between machines in one placement group: write "
        "Networking: PlacementGroup: {Enabled: true}, or Enabled: false if you do not want one",
    ),
    (
        "PlacementGroupCapacityTypeValidator",
        "",
        "the machines of a Capacity Block are close together anyway: "
        "PlacementGroup: {Enabled: false}",
    ),
    (
        "ComputeResourceSizeValidator",
        "Capacity Block",
        "a Capacity Block costs the same if it is not used: set MinCount and MaxCount to its size",
    ),
    (
        "CapacityTypeValidator",
        "Reservation id",
        "name the block: CapacityReservationTarget: {CapacityReservationId: cr-...}",
    ),
    (
        "CapacityTypeValidator",
        "not supported",
        "CapacityType is ONDEMAND, SPOT or CAPACITY_BLOCK; not every instance type has all three",
    ),
    (
        "KeyPairValidator",
        "RSA",
        "create a key that Ubuntu accepts: "
        "aws ec2 create-key-pair --key-type ed25519 --key-name NAME",
    ),
    (
        "MultiNetworkInterfacesInstancesValidator",
        "",
        "a machine with several network cards cannot have a public address: use a private subnet "
        "with a NAT gateway, or with endpoints for S3 and the services that ParallelCluster uses",
    ),
    (
        "EfaSecurityGroupValidator",
        "",
        "a rule for 0.0.0.0/0 is not enough for EFA: inbound and outbound need a rule that allows "
        "all traffic with the group itself; AdditionalSecurityGroups keeps ParallelCluster's group",
    ),
    (
        "DeletionPolicyValidator",
        "set to Delete",
        "DeletionPolicy: Retain keeps the data when the cluster is deleted",
    ),
    (
        "InstanceArchitectureCompatibilityValidator",
        "",
        "head node and compute nodes run the same image, so they need the same architecture",
    ),
    (
        "ManagedFsxMultiAzValidator",
        "",
        "a file system is in one zone: use one subnet for all queues, or an existing file system",
    ),
)


def hint_for(validator: str, text: str) -> str:
    """The hint for a validator's result; "" if its text is enough."""
    found = (
        hint
        for name, part, hint in _HINTS
        if name == validator.replace("AsyncTimed", "") and part in text
    )
    return next(found, "")
