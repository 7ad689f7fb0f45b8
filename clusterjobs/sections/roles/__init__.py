"""The section `roles`: commands on nodes of their own."""
