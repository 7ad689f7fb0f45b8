"""Render, check and run multi-node training jobs on AWS ParallelCluster."""

__version__ = "0.1.0"
