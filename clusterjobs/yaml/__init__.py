"""YAML as plain data, with the position of every value."""
