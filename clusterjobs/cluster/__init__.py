"""Facts about a cluster in Slurm's terms, from any source. Knows no vendor and no experiment."""
