"""The version of clusterjobs."""

__version__ = "0.1.0"
