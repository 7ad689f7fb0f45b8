"""Follows jobs to their end: the queue, the log, Ctrl-C."""
