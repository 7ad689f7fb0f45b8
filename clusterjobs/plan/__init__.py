"""Everything that follows from a spec and a cluster, derived once."""
