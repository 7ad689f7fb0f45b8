"""The section `preflight`: the checks of every node."""
