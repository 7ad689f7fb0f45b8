"""Calls Slurm's commands: sbatch, squeue, scancel."""
