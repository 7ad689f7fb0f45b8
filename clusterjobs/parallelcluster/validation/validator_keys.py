"""Which keys of a config each of ParallelCluster's validators checks: a table, taken from 3.16.1.

The results of a validator that is not listed are located by the values in their messages.
"""

from __future__ import annotations

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
