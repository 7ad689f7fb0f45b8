"""Talking to Slurm through its own commands."""
