"""PyTorch Lightning: its variables, flags and checkpoints."""
