"""The keys of a spec, one module for each section, as pydantic models."""
