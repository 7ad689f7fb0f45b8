"""Reads the lines of any program that prints steps and named values, in whatever form."""
