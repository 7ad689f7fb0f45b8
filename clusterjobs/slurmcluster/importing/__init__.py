"""A description of a Slurm cluster from texts: the output of Slurm's commands, or its files."""
