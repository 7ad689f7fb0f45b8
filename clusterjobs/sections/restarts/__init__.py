"""The section `restarts`: how often a job restarts, and how its ranks save."""
