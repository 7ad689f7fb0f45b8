"""What a rule about fairseq looks at: the spec's arguments by fairseq's own names.

Knows how both programs' arguments are written; it must not know what any of them means.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from clusterjobs.frameworks.arguments import Argument, given_arguments
from clusterjobs.frameworks.base import Task
from clusterjobs.frameworks.fairseq.command_line import argument_keys
from clusterjobs.frameworks.fairseq.settings import Settings
from clusterjobs.frameworks.given import GivenArguments


@dataclass(frozen=True)
class Given(GivenArguments):
    """A spec's arguments by the last part of their names, and fairseq's settings."""

    settings: Settings

    @property
    def is_hydra(self) -> bool:
        """Whether the arguments are hydra's overrides."""
        return self.settings.cli == "fairseq-hydra-train"

    @property
    def is_complete(self) -> bool:
        """Whether no config file of the user's has further settings."""
        return self.settings.config_name is None

    def written(self, group: str, key: str) -> str:
        """A setting as it is written in `args`: max-update, or optimization.max_update."""
        return f"{group}.{key}" if self.is_hydra else key.replace("_", "-")


def given_of(task: Task, settings: Settings) -> Given:
    """What the spec of a task gives."""
    is_hydra = settings.cli == "fairseq-hydra-train"
    overrides = _overrides(task) if is_hydra else given_arguments(task.experiment)
    values = {one.position: one for one in overrides}
    found = {
        key: values[position]
        for position, _, key in argument_keys(task.experiment)
        if position in values
    }
    return Given(task, found, settings)


def _overrides(task: Task) -> Iterator[Argument]:
    """hydra's overrides: `optimization.lr: [1e-4]`, or the text `optimization.lr=[1e-4]`."""
    arguments = task.experiment.args
    if isinstance(arguments, Mapping):
        for name, value in arguments.items():
            text = str(value).lower() if isinstance(value, bool) else str(value)
            text = f"[{','.join(value)}]" if isinstance(value, tuple) else text
            yield Argument(name, name, (text,))
        return
    for index, word in enumerate(arguments):
        name, equals, text = word.partition("=")
        yield Argument(index, name, (text,) if equals else ())
