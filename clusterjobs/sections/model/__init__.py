"""Parallel sizes, batch sizes, and the sizes of the model."""
