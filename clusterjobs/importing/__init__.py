"""Makes the description of a cluster from what its Slurm prints."""
