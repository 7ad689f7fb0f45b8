"""clusterjobs status: one view of jobs and sweeps."""
