"""Which keys of a config each of ParallelCluster's validators judges: a table, read off 3.16.1.

A validator that is not here is placed by the values that its message names.
"""

from __future__ import annotations

# Keys that a validator is about, the most telling first: looked for in the innermost section that
# is known, then in those around it, then in the whole config.
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

# Registered after the loops have ended, when their variables are left over from the last round.
OF_THE_CLUSTER = frozenset(
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


# Two values of one key clash, and the one that came later is the one to change.
OF_THE_SECOND = {"DuplicateMountDirValidator": "MountDir", "DuplicateNameValidator": "Name"}
