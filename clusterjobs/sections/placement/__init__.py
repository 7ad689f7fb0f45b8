"""The section `placement`: partition, node type, nodes, GPUs, ranks and CPUs."""
