"""A temporary, real Slurm cluster on this machine, shaped like a given cluster."""
