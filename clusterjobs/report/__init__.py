"""What a run achieved, from its logs: speed, efficiency, loss, lost time and goodput."""
