"""Clusters: their facts, and the sources of these facts."""
