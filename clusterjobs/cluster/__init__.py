"""A cluster as facts in Slurm's terms, from any source; knows no vendor and no experiment."""
