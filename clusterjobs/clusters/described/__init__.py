"""Descriptions of Slurm clusters, `kind: slurm`, as the source of a cluster's facts."""
