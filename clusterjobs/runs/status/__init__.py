"""`status`: the states of jobs and sweeps."""
