"""The commands that run before, after and in parallel to the training."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.spec import experiment as spec


class Step(NamedTuple):
    """A command that runs once, or once on every node."""

    words: tuple[str, ...]
    per_node: bool


class Steps(NamedTuple):
    """`sidecars` run in parallel to the training and are stopped with it."""

    before: tuple[Step, ...]
    after: tuple[Step, ...]
    sidecars: tuple[Step, ...]


def plan_steps(before: spec.Steps, after: spec.Steps, sidecars: spec.Steps) -> Steps:
    """The section `steps`, from the spec."""
    return Steps(_steps(before), _steps(after), _steps(sidecars))


def _steps(written: spec.Steps) -> tuple[Step, ...]:
    return tuple(Step(one.command, one.per == "node") for one in written)
