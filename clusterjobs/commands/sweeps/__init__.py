"""A sweep for the commands: its points, their plans, scripts and jobs."""
