"""Our own checks of a ParallelCluster config, in addition to ParallelCluster's validators."""
