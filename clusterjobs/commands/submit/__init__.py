"""Submits specs and sweeps: what is missing, under a lock, with a record."""
