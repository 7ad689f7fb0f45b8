"""What a rule about Megatron-DeepSpeed's arguments looks at: its flags, and DeepSpeed's config."""

from __future__ import annotations

from dataclasses import dataclass

from clusterjobs.frameworks.arguments import given_arguments
from clusterjobs.frameworks.base import Task
from clusterjobs.frameworks.ds_config_rules import DsConfig
from clusterjobs.frameworks.given import GivenArguments


@dataclass(frozen=True)
class Given(GivenArguments):
    """A spec's arguments, and DeepSpeed's config."""

    config: DsConfig


def given_of(task: Task, config: DsConfig) -> Given:
    """The arguments of a task's spec."""
    return Given(task, {one.key: one for one in given_arguments(task.experiment)}, config)
