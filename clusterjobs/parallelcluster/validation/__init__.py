"""Checks a ParallelCluster config with ParallelCluster's own schema and validators, and our own.

This package knows configs and simulated accounts. It must not know experiments, and must not print.
ParallelCluster, moto and boto3 are an optional extra, imported only where they are used.
"""
