"""Checks of ParallelCluster configs, by its own schema and validators and by ours."""

from clusterjobs.plugins import Command

VALIDATE = Command(
    "validate",
    "clusterjobs.validation.command:validate",
    "Check specs and ParallelCluster configs without a cluster.",
    after="templates",
)
DIFF = Command(
    "clusters.diff", "clusterjobs.validation.clusters_commands:diff", "Compare two configs."
)
UPGRADE = Command(
    "clusters.upgrade",
    "clusterjobs.validation.clusters_commands:upgrade",
    "Bring an older config up to ParallelCluster 3.16.",
)
