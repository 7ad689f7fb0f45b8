"""ParallelCluster configs: found, read as facts, fitted to a site; knows no experiment."""
