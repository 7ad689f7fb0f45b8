"""The arguments of a spec, as rules about a framework's arguments look at them.

Knows how arguments are written; it must not know what any of them means.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from clusterjobs.frameworks.arguments import Argument
from clusterjobs.frameworks.base import Task
from clusterjobs.frameworks.rules import Finding
from clusterjobs.yaml.document import Path


@dataclass(frozen=True)
class GivenArguments:
    """A spec's arguments by name, with underscores, and the rest of the spec."""

    task: Task
    arguments: Mapping[str, Argument]

    def has(self, name: str) -> bool:
        """Whether the argument is given."""
        return name in self.arguments

    def text(self, name: str) -> str | None:
        """The argument's only value."""
        found = self.arguments.get(name)
        return found.values[0] if found and len(found.values) == 1 else None

    def number(self, name: str) -> float | None:
        """The value; None if it is missing, not a number, or known only when the job runs."""
        try:
            return float(self.text(name) or "")
        except ValueError:
            return None

    def path(self, name: str) -> Path:
        """Where the argument is, or where it would be."""
        found = self.arguments.get(name)
        return found.path if found else ("args",)

    def finding(self, name: str, what: str, hint: str) -> Finding:
        """A mistake at one argument."""
        return Finding(self.path(name), what, hint)
