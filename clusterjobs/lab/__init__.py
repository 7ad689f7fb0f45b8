"""A temporary, real Slurm cluster on this machine, shaped like a ParallelCluster config."""
