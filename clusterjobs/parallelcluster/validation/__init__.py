"""Would ParallelCluster take this config? Its own schema and validators, and what they miss.

This room knows configs and make-believe accounts; it must not know experiments, nor print.
ParallelCluster, moto and boto3 are an optional extra, imported only where they are run.
"""
