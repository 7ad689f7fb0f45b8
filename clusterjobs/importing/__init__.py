"""Makes the description of a cluster from its Slurm, and a spec from an sbatch script."""

from clusterjobs.plugins import Command

IMPORT = Command(
    "clusters.import",
    "clusterjobs.importing.command:import_",
    "Describe a Slurm cluster, from its Slurm or from files.",
)
SCRIPT = Command(
    "import",
    "clusterjobs.importing.scripts.command:import_",
    "Write a spec from an sbatch script.",
    after="render",
)
INIT = Command("init", "clusterjobs.importing.init:init", "Write a first spec.")
