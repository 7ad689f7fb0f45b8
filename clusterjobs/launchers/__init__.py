"""The launchers by name, from the entry points `clusterjobs.launchers` of all installed packages.

A launcher is one file here, its template launch/<name>.sh.j2 and a line in pyproject.toml.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.launchers.base import Launcher
from clusterjobs.registry import Registry

__all__ = ["LAUNCHERS", "Launcher"]

LAUNCHERS: Mapping[str, Launcher] = Registry("clusterjobs.launchers", Launcher)
