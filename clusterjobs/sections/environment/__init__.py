"""The section `environment`: variables, modules, secrets and setup."""
