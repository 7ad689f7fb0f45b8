"""The sections of a job: one folder each, with its plan, checks and text."""
