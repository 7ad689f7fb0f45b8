"""Checks of ParallelCluster configs, by its own schema and validators and by ours."""
