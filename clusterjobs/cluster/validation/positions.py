"""Which value of a config a result of ParallelCluster's validators is about.

This floor knows which keys each validator judges; it must not know how validators are run.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusterjobs.cluster.validation.walk import Data, scalars
from clusterjobs.yaml_source import Path

# The attributes of ParallelCluster's objects whose key in a config is not their name in capitals.
_KEYS = {"queues": "SlurmQueues", "settings": "SlurmSettings", "efs": "EFS", "kms": "KMS"}

# Keys that a validator is about, the most telling first: looked for in the innermost section that
# is known, then in those around it, then in the whole config.
KEYS: dict[str, tuple[str, ...]] = {
    "AmiOsCompatibleValidator": ("Image.CustomAmi", "Image.Os"),
    "ArchitectureOsValidator": ("HeadNode.InstanceType",),
    "CapacityReservationResourceGroupValidator": ("CapacityReservationTarget",),
    "CapacityReservationSizeValidator": ("MaxCount", "CapacityReservationTarget"),
    "CapacityReservationValidator": ("CapacityReservationTarget.CapacityReservationId",),
    "CapacityTypeValidator": ("CapacityType", "InstanceType"),
    "ClusterNameValidator": (),
    "ComputeResourceLaunchTemplateValidator": ("ComputeResources.0.InstanceType",),
    "ComputeResourceSizeValidator": ("MaxCount", "MinCount"),
    "CustomSlurmNodeNamesValidator": ("CustomSlurmSettings",),
    "CustomSlurmSettingsIncludeFileOnlyValidator": ("CustomSlurmSettingsIncludeFile",),
    "CustomSlurmSettingsValidator": ("CustomSlurmSettings",),
    "DeletionPolicyValidator": (
        "FsxLustreSettings.DeletionPolicy",
        "EfsSettings.DeletionPolicy",
        "EbsSettings.DeletionPolicy",
        "Name",
    ),
    "DuplicateMountDirValidator": ("SharedStorage",),
    "EbsVolumeIopsValidator": (
        "EbsSettings.Iops",
        "LocalStorage.RootVolume.Iops",
        "ComputeSettings.LocalStorage.RootVolume.Iops",
    ),
    "EbsVolumeThroughputValidator": ("EbsSettings.Throughput", "Throughput"),
    "EbsVolumeTypeSizeValidator": (
        "EbsSettings.Size",
        "ComputeSettings.LocalStorage.RootVolume.Size",
        "LocalStorage.RootVolume.Size",
        "EbsSettings.VolumeType",
    ),
    "EfaMultiAzValidator": ("Networking.SubnetIds",),
    "EfaOsArchitectureValidator": ("Efa.Enabled",),
    "EfaPlacementGroupValidator": ("Networking.PlacementGroup", "Networking"),
    "EfaSecurityGroupValidator": ("Networking.SecurityGroups",),
    "EfaValidator": ("Efa.Enabled", "InstanceType"),
    "FsxAutoImportValidator": ("FsxLustreSettings.AutoImportPolicy",),
    "FsxBackupOptionsValidator": ("FsxLustreSettings.BackupId",),
    "FsxDraValidator": ("FsxLustreSettings.DataRepositoryAssociations",),
    "FsxPersistentOptionsValidator": (
        "FsxLustreSettings.PerUnitStorageThroughput",
        "FsxLustreSettings.KmsKeyId",
        "FsxLustreSettings.DeploymentType",
    ),
    "FsxS3Validator": ("FsxLustreSettings.ImportPath", "FsxLustreSettings.ExportPath"),
    "FsxStorageCapacityValidator": ("FsxLustreSettings.StorageCapacity",),
    "FsxStorageTypeOptionsValidator": (
        "FsxLustreSettings.StorageType",
        "FsxLustreSettings.DriveCacheType",
    ),
    "HeadNodeLaunchTemplateValidator": ("HeadNode.InstanceType",),
    "HeadNodeMemorySizeValidator": ("HeadNode.InstanceType",),
    "InstanceArchitectureCompatibilityValidator": ("InstanceType", "Instances"),
    "InstanceTypeBaseAMICompatibleValidator": ("InstanceType", "Instances"),
    "InstanceTypeOSCompatibleValidator": ("InstanceType", "Instances"),
    "InstanceTypePlacementGroupValidator": ("Networking.PlacementGroup",),
    "InstanceTypeValidator": ("InstanceType",),
    "InstancesEFAValidator": ("Efa.Enabled", "Instances"),
    "KeyPairValidator": ("HeadNode.Ssh.KeyName", "HeadNode"),
    "ManagedFsxMultiAzValidator": ("Networking.SubnetIds",),
    "MaxCountValidator": ("ComputeResources", "Scheduling.SlurmQueues"),
    "MixedSecurityGroupOverwriteValidator": ("Networking.SecurityGroups",),
    "MultiAzPlacementGroupValidator": ("Networking.PlacementGroup",),
    "MultiNetworkInterfacesInstancesValidator": (
        "Networking.AssignPublicIp",
        "Networking.SubnetIds",
    ),
    "NumberOfStorageValidator": ("SharedStorage",),
    "OsCustomAmiValidator": ("Image.Os",),
    "PlacementGroupCapacityReservationValidator": ("Networking.PlacementGroup",),
    "PlacementGroupCapacityTypeValidator": ("Networking.PlacementGroup", "CapacityType"),
    "PlacementGroupNamingValidator": ("Name", "Id"),
    "QueueSubnetsValidator": ("Networking.SubnetIds",),
    "RegionValidator": ("Region",),
    "RootVolumeSizeValidator": (
        "ComputeSettings.LocalStorage.RootVolume.Size",
        "HeadNode.LocalStorage.RootVolume.Size",
    ),
    "SchedulerValidator": ("Scheduling.Scheduler",),
    "SharedEbsPerformanceBottleNeckValidator": ("StorageType",),
    "SharedStorageMountDirValidator": ("MountDir",),
    "SharedStorageNameValidator": ("Name",),
    "SingleInstanceTypeSubnetValidator": ("Networking.SubnetIds",),
    "SlurmNodePrioritiesWarningValidator": ("ComputeResources",),
    "SubnetsValidator": ("Networking.SubnetIds",),
    "UnmanagedFsxMultiAzValidator": ("FsxLustreSettings.FileSystemId", "SharedStorage"),
}

# Registered after the loops have ended, when their variables are left over from the last round.
_OF_THE_CLUSTER = frozenset(
    (
        "CapacityReservationSizeValidator",
        "DuplicateMountDirValidator",
        "ExistingFsxNetworkingValidator",
        "HeadNodeMemorySizeValidator",
        "NumberOfStorageValidator",
        "OverlappingMountDirValidator",
    )
)


class Positions:
    """The places of ParallelCluster's objects in the data that they were made from."""

    def __init__(self, config: Any, data: Data) -> None:
        self._data = data
        self._paths: dict[int, Path] = dict(_resource_paths(config, data, ()))

    def find(self, validator: str, text: str, owners: Sequence[Any]) -> Path:
        """The place of the value that a result is about, at worst of the section around it."""
        sections = self._sections(validator, owners)
        named = self._named(text, sections)
        wanted = [tuple(key.split(".")) for key in KEYS.get(validator, ())]
        for section in sections:
            for key in wanted:
                if _has(self._data, (*section, *_steps(key))):
                    return _narrowest((*section, *_steps(key)), named)
        below = (path for key in wanted for path in _below(self._data, sections[0], key))
        return next(below, named[0] if named else sections[0])

    def _sections(self, validator: str, owners: Sequence[Any]) -> list[Path]:
        """From the innermost section outwards to the whole config."""
        if validator in _OF_THE_CLUSTER:
            return [()]
        known = [self._paths[id(owner)] for owner in owners if id(owner) in self._paths]
        inner = max(known, key=len, default=())
        return [inner[:length] for length in range(len(inner), -1, -1)]

    def _named(self, text: str, sections: Sequence[Path]) -> list[Path]:
        """Values that the message names, those in the innermost section first."""
        values = [(path, str(value)) for path, value in scalars(self._data)]
        named = [(path, value) for path, value in values if _mentions(text, value)]
        depth = {section: index for index, section in enumerate(sections)}
        named.sort(key=lambda entry: (_distance(entry[0], depth), -len(entry[1])))
        return [path for path, _ in named]


def _steps(key: Sequence[str]) -> Path:
    return tuple(int(step) if step.isdigit() else step for step in key)


def _distance(path: Path, sections: Mapping[Path, int]) -> int:
    return min(index for section, index in sections.items() if path[: len(section)] == section)


def _narrowest(path: Path, named: Sequence[Path]) -> Path:
    """Within the key, the value that the message names."""
    return next((inner for inner in named if inner[: len(path)] == path), path)


def _mentions(text: str, value: str) -> bool:
    """Short words (`true`, `1`, `/`) stand in too many messages to tell anything."""
    return len(value) > 2 and value.lower() not in ("true", "false", "slurm") and value in text


def _has(data: Any, path: Path) -> bool:
    for step in path:
        known: Any = dict(enumerate(data)) if isinstance(data, list) else data
        if not isinstance(known, dict) or step not in known:
            return False
        data = known[step]
    return True


def _below(data: Any, section: Path, key: tuple[str, ...]) -> Iterator[Path]:
    """Every place further in than the section that ends with the key."""
    for path, _ in scalars(data):
        for end in range(len(section) + len(key), len(path) + 1):
            if path[end - len(key) : end] == key and path[: len(section)] == section:
                yield path[:end]


# ------------------------------------------------------------------ objects to places


def _resource_paths(resource: Any, data: Any, path: Path) -> Iterator[tuple[int, Path]]:
    """ParallelCluster's objects mirror the config: their attributes are its keys."""
    from pcluster.config.common import Resource

    yield id(resource), path
    for name, value in vars(resource).items():
        key = _find_key(data, name)
        if key is None:
            continue
        inner = _child(data, key)
        if isinstance(value, Resource):
            yield from _resource_paths(value, inner, (*path, *key))
        elif isinstance(value, list) and isinstance(inner, list):
            for index, pair in enumerate(zip(value, inner, strict=False)):
                if isinstance(pair[0], Resource):
                    yield from _resource_paths(*pair, (*path, *key, index))


def _find_key(data: Any, attribute: str) -> tuple[str, ...] | None:
    """The key of an attribute. Storage has its own keys in `EbsSettings` and the like."""
    if not isinstance(data, dict) or attribute.startswith("_"):
        return None
    key = _KEYS.get(attribute) or "".join(part.capitalize() for part in attribute.split("_"))
    if key in data:
        return (key,)
    around = (name for name, inner in data.items() if isinstance(inner, dict) and key in inner)
    settings = next((name for name in around if name.endswith("Settings")), None)
    return (settings, key) if settings else None


def _child(data: Any, key: tuple[str, ...]) -> Any:
    for step in key:
        data = data[step]
    return data
