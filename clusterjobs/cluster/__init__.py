"""A cluster as facts in Slurm's terms, whoever describes it; knows no vendor and no experiment."""
