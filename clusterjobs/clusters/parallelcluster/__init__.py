"""ParallelCluster configs as the source of a cluster's facts, and `cluster.yaml`."""
