"""The section `checkpoints`: their folder, and what is exported."""
