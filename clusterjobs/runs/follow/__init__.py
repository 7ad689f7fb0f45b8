"""Follows jobs to their end."""
