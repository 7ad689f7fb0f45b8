"""The commands before, after and beside the training."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.spec import experiment as spec


class Step(NamedTuple):
    """A command, once for the job or once on every node."""

    words: tuple[str, ...]
    per_node: bool


class Steps(NamedTuple):
    """`sidecars` run beside the training and are ended with it."""

    before: tuple[Step, ...]
    after: tuple[Step, ...]
    sidecars: tuple[Step, ...]


def plan_steps(before: spec.Steps, after: spec.Steps, sidecars: spec.Steps) -> Steps:
    """The spec's own steps."""
    return Steps(_steps(before), _steps(after), _steps(sidecars))


def _steps(written: spec.Steps) -> tuple[Step, ...]:
    return tuple(Step(one.command, one.per == "node") for one in written)
