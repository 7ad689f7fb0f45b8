"""Reads the specs that a spec needs into a graph, and draws it."""
