"""The section `job`: name, directives, folders and parameters."""
