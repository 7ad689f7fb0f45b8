"""Everything that knows ParallelCluster: its configs, their changes, their validation."""
