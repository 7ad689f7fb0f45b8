"""Our own checks of a ParallelCluster config, beside ParallelCluster's validators."""
