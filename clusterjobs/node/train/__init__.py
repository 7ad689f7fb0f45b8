"""Programs that the ranks load."""
