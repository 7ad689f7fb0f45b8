"""What to do about a result of ParallelCluster's, where more is known than its text says."""

from __future__ import annotations

# Validator, a part of its text ("" for any), and the hint.
_HINTS: tuple[tuple[str, str, str], ...] = (
    (
        "InstanceTypeBaseAMICompatibleValidator",
        "OpenRM",
        "official images carry NVIDIA's open driver, which V100 and older GPUs do not run with: "
        "name an image with the closed driver under CustomAmi, whose description does not hold "
        "'AWS ParallelCluster AMI'; cluster-configs/p3dn-v100.yaml says how to make it",
    ),
    (
        "EfaPlacementGroupValidator",
        "",
        "EFA reaches its latency only between machines that stand close together: write "
        "Networking: PlacementGroup: {Enabled: true}, or Enabled: false if that is meant",
    ),
    (
        "PlacementGroupCapacityTypeValidator",
        "",
        "a Capacity Block stands close together by itself: PlacementGroup: {Enabled: false}",
    ),
    (
        "ComputeResourceSizeValidator",
        "Capacity Block",
        "a Capacity Block is paid whether used or not: MinCount and MaxCount are its size",
    ),
    (
        "CapacityTypeValidator",
        "Reservation id",
        "CapacityReservationTarget: {CapacityReservationId: cr-...} names the block",
    ),
    (
        "CapacityTypeValidator",
        "not supported",
        "CapacityType is ONDEMAND, SPOT or CAPACITY_BLOCK; not every type is sold in every way",
    ),
    (
        "KeyPairValidator",
        "RSA",
        "aws ec2 create-key-pair --key-type ed25519 --key-name NAME makes one that Ubuntu takes",
    ),
    (
        "MultiNetworkInterfacesInstancesValidator",
        "",
        "a machine with several network cards gets no public address: a private subnet with a "
        "NAT gateway, or with endpoints for S3 and the services that ParallelCluster uses",
    ),
    (
        "EfaSecurityGroupValidator",
        "",
        "a rule for 0.0.0.0/0 is not enough for EFA: both directions need a rule for all traffic "
        "whose other side is the group itself; AdditionalSecurityGroups keeps ParallelCluster's",
    ),
    (
        "DeletionPolicyValidator",
        "set to Delete",
        "DeletionPolicy: Retain keeps the data when the cluster is deleted",
    ),
    (
        "InstanceArchitectureCompatibilityValidator",
        "",
        "head node and compute nodes run the same image, so they must be of one architecture",
    ),
    (
        "ManagedFsxMultiAzValidator",
        "",
        "a file system stands in one zone: one subnet for all queues, or a file system of your own",
    ),
)


def hint_for(validator: str, text: str) -> str:
    """A hint for a validator's result, "" where its text says all."""
    found = (
        hint
        for name, part, hint in _HINTS
        if name == validator.replace("AsyncTimed", "") and part in text
    )
    return next(found, "")
