"""Programs for the batch host that decide about the job itself."""
