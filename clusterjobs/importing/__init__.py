"""Makes the description of a cluster from what its Slurm prints."""

from clusterjobs.plugins import Command

IMPORT = Command(
    "clusters.import",
    "clusterjobs.importing.command:import_",
    "Describe a Slurm cluster, from its Slurm or from files.",
)
