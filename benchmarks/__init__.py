"""Benchmarks: `make bench`. Each measures a floor and clusterjobs in turns, in the same run."""
