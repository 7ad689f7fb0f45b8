"""Finds the value in a config that a result of ParallelCluster's validators is about.

Messages name values, but no paths. A table has the keys that each validator checks.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusterjobs.validation.finding import Data, has, scalars
from clusterjobs.yaml.document import Path, look_at

# The table is taken from ParallelCluster 3.16.1. The results of a validator that is not listed are
# located by the values in their messages.
#
# The keys that a validator checks, the most specific first. They are searched in the innermost
# known section, then in the sections around it, then in the whole config.
KEYS: dict[str, tuple[str, ...]] = {
    "AdditionalIamPolicyValidator": ("Policy",),
    "AsyncTimedUrlValidator": ("Script",),
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
    "CustomAmiTagValidator": ("CustomAmi", "Image.CustomAmi"),
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
    "FsxAutoImportValidator": ("AutoImportPolicy", "FsxLustreSettings.AutoImportPolicy"),
    "FsxBackupOptionsValidator": ("FsxLustreSettings.BackupId",),
    "FsxDraValidator": ("FsxLustreSettings.DataRepositoryAssociations",),
    "FsxPersistentOptionsValidator": (
        "FsxLustreSettings.PerUnitStorageThroughput",
        "FsxLustreSettings.KmsKeyId",
        "FsxLustreSettings.DeploymentType",
    ),
    "FsxS3Validator": ("FsxLustreSettings.ImportPath", "FsxLustreSettings.ExportPath"),
    "FsxStorageCapacityValidator": ("FsxLustreSettings.StorageCapacity", "FsxLustreSettings"),
    "FsxStorageTypeOptionsValidator": (
        "FsxLustreSettings.PerUnitStorageThroughput",
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
    "MultiAzRootVolumeValidator": ("Networking.SubnetIds",),
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
    "S3BucketUriValidator": (
        "DataRepositoryPath",
        "FsxLustreSettings.ImportPath",
        "FsxLustreSettings.ExportPath",
    ),
    "SchedulableMemoryValidator": ("SchedulableMemory",),
    "SchedulerValidator": ("Scheduling.Scheduler",),
    "SharedEbsPerformanceBottleNeckValidator": ("StorageType",),
    "SharedStorageMountDirValidator": ("MountDir",),
    "SharedStorageNameValidator": ("Name",),
    "SingleInstanceTypeSubnetValidator": ("Networking.SubnetIds",),
    "SlurmNodePrioritiesWarningValidator": ("ComputeResources",),
    "SubnetsValidator": ("Networking.SubnetIds",),
    "UnmanagedFsxMultiAzValidator": ("FsxLustreSettings.FileSystemId", "SharedStorage"),
    "UrlValidator": ("CustomSlurmSettingsIncludeFile", "Script"),
}

# Validators of the whole cluster. They are registered after the loops over queues and storage, when
# the loop variables still have their last values.
CLUSTER_VALIDATORS = frozenset(
    (
        "CapacityReservationSizeValidator",
        "DuplicateMountDirValidator",
        "ExistingFsxNetworkingValidator",
        "HeadNodeMemorySizeValidator",
        "ManagedFsxMultiAzValidator",
        "MultiAzEbsVolumeValidator",
        "MultiAzRootVolumeValidator",
        "NumberOfStorageValidator",
        "OverlappingMountDirValidator",
    )
)


# Validators that report two equal values of one key; the result is located at the second value.
DUPLICATED_KEYS = {"DuplicateMountDirValidator": "MountDir", "DuplicateNameValidator": "Name"}


# The attributes of ParallelCluster's objects whose key in a config is not the name in CamelCase.
_KEYS = {"queues": "SlurmQueues", "settings": "SlurmSettings", "efs": "EFS", "kms": "KMS"}

_SETTINGS = "CustomSlurmSettings"  # messages contain its keys, not its values


class SourceMap:
    """The paths of ParallelCluster's objects in the data that they were created from."""

    def __init__(self, config: Any, data: Data) -> None:
        self._data = data
        self._paths: dict[int, Path] = dict(_resource_paths(config, data, ()))

    def find(self, validator: str, text: str, owners: Sequence[Any]) -> Path:
        """The path of the value that a result is about, or else of the section around it."""
        sections = self._sections(validator, owners)
        named = self._named(text, sections)
        if duplicated := DUPLICATED_KEYS.get(validator):
            named = [self._last_like(path) for path in named if path[-1] == duplicated][:1]
        keys = [tuple(key.split(".")) for key in KEYS.get(validator, ())]
        for key in keys:
            for section in sections:
                if has(self._data, (*section, *_steps(key))):
                    return _narrowest((*section, *_steps(key)), named)
        below = [path for key in keys for path in _below(self._data, sections[0], key)]
        narrowed = (path for path in named if any(path[: len(outer)] == outer for outer in below))
        return next(narrowed, (below or named or sections)[0])

    def _sections(self, validator: str, owners: Sequence[Any]) -> list[Path]:
        """The innermost section first, the whole config last."""
        if validator in CLUSTER_VALIDATORS:
            return [()]
        known = [self._paths[id(owner)] for owner in owners if id(owner) in self._paths]
        inner = max(known, key=len, default=())
        return [inner[:length] for length in range(len(inner), -1, -1)]

    def _named(self, text: str, sections: Sequence[Path]) -> list[Path]:
        """The values that the message contains, those in the innermost section first."""
        values = [(path, str(value)) for path, value in scalars(self._data)]
        named = [(path, value) for path, value in values if _mentions(text, value)]
        named += [(path, "") for path, _ in values if _SETTINGS in path and str(path[-1]) in text]
        depth = {section: index for index, section in enumerate(sections)}
        named.sort(key=lambda entry: (_distance(entry[0], depth), -len(entry[1])))
        return [path for path, _ in named]

    def _last_like(self, path: Path) -> Path:
        """The last path with the same key and value."""
        values = dict(scalars(self._data))
        same = [p for p in values if p[-1] == path[-1] and values[p] == values[path]]
        return same[-1]


def _steps(key: Sequence[str]) -> Path:
    return tuple(int(step) if step.isdigit() else step for step in key)


def _distance(path: Path, sections: Mapping[Path, int]) -> int:
    return min(index for section, index in sections.items() if path[: len(section)] == section)


def _narrowest(path: Path, named: Sequence[Path]) -> Path:
    """The value below the path that the message contains, or else the path itself."""
    return next((inner for inner in named if inner[: len(path)] == path), path)


def _mentions(text: str, value: str) -> bool:
    """Whether the text refers to the value: a value such as `data` is also an ordinary word."""
    if value not in text or len(value) < 2:
        return False
    if value.isalpha() and value.islower():
        return bool(re.search(rf"(?:['\"`]|\bname ){value}(?:['\"` ]|$)", text))
    return bool(re.search(rf"(?:^|[^\w/-]){re.escape(value)}(?:$|[^\w/-])", text))


def _below(data: Any, section: Path, key: tuple[str, ...]) -> Iterator[Path]:
    """Every path below the section that ends with the key."""
    for path, _ in scalars(data):
        for end in range(len(section) + len(key), len(path) + 1):
            if path[end - len(key) : end] == key and path[: len(section)] == section:
                yield path[:end]


# ------------------------------------------------------------------ objects to paths


def _resource_paths(resource: Any, data: Any, path: Path) -> Iterator[tuple[int, Path]]:
    """ParallelCluster's objects have the structure of the config: attributes correspond to keys."""
    from pcluster.config.common import Resource

    yield id(resource), path
    for name, value in vars(resource).items():
        key = _find_key(data, name)
        if key is None:
            continue
        inner = look_at(data, key)
        if isinstance(value, Resource):
            yield from _resource_paths(value, inner, (*path, *key))
        elif isinstance(value, list) and isinstance(inner, list):
            for index, pair in enumerate(zip(value, inner, strict=False)):
                if isinstance(pair[0], Resource):
                    yield from _resource_paths(*pair, (*path, *key, index))


def _find_key(data: Any, attribute: str) -> tuple[str, ...] | None:
    """The key of an attribute. Some keys of storage are in `EbsSettings` and the like."""
    if not isinstance(data, dict) or attribute.startswith("_"):
        return None
    key = _KEYS.get(attribute) or "".join(part.capitalize() for part in attribute.split("_"))
    if key in data:
        return (key,)
    around = (name for name, inner in data.items() if isinstance(inner, dict) and key in inner)
    settings = next((name for name in around if name.endswith("Settings")), None)
    return (settings, key) if settings else None
