"""A package as a site would write it: a launcher and a framework, found through entry points.

This folder is what pip leaves in site-packages after it has installed such a package.
"""
