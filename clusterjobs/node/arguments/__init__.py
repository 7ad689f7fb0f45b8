"""Programs that give a job's arguments to the framework's own parser."""
