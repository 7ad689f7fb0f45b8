"""Reads the files that jobs write into their folders."""
