"""The section `files`: files and folders that the script creates first."""
