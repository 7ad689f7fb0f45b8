"""Everything that knows our own description of a Slurm cluster, `kind: slurm`."""
