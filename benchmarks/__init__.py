"""Benchmarks: `make bench`. Each measures a baseline and clusterjobs alternately, in one run."""
