"""Jobs of a run: their folders, their records, their states, and the choice of some of them."""
