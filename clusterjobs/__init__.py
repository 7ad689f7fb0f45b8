"""Render, check and run multi-node training jobs on Slurm clusters."""

__version__ = "0.1.0"
