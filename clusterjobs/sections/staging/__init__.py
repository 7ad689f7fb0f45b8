"""The section `staging`: how each data set gets to its target."""
