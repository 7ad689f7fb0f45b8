"""What a rule about Megatron-DeepSpeed's arguments looks at: the flags of a spec, as numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from clusterjobs.frameworks.arguments import Argument, given_arguments
from clusterjobs.frameworks.base import Task
from clusterjobs.frameworks.ds_config_rules import DsConfig
from clusterjobs.frameworks.rules import Finding
from clusterjobs.yaml.document import Path


class Given(NamedTuple):
    """A spec's arguments by name, and the rest of the spec."""

    task: Task
    flags: Mapping[str, Argument]
    config: DsConfig

    def has(self, name: str) -> bool:
        """Whether the flag is given. `name` with underscores."""
        return name in self.flags

    def text(self, name: str) -> str | None:
        """The flag's only value."""
        flag = self.flags.get(name)
        return flag.values[0] if flag and len(flag.values) == 1 else None

    def number(self, name: str) -> float | None:
        """The flag's value, unless it is missing, no number, or known only when the job runs."""
        try:
            return float(self.text(name) or "")
        except ValueError:
            return None

    def path(self, name: str) -> Path:
        """Where the flag is, or where it would be."""
        flag = self.flags.get(name)
        return flag.path if flag else ("args",)

    def finding(self, name: str, what: str, hint: str) -> Finding:
        """A mistake at the flag `name`."""
        return Finding(self.path(name), what, hint)


def given_of(task: Task, config: DsConfig) -> Given:
    """What the spec of a task gives."""
    return Given(task, {one.key: one for one in given_arguments(task.experiment)}, config)
