"""Runs: loading, planning and rendering specs, and everything about their jobs."""
