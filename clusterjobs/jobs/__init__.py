"""What jobs have written into their folders."""
