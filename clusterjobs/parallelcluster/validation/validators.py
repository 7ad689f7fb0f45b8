"""ParallelCluster's own validators, run over a loaded config, and where each result belongs.

A result names no place. What is known when it arises is kept: the object whose validator ran, its
arguments, and the loop variables at the line that registered it (`queue`, `compute_resource`).
This floor knows ParallelCluster 3.16's Resource class; which key a validator is about is
`positions.py`'s to say.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from unittest.mock import patch

from clusterjobs.parallelcluster.validation.finding import Finding, Level
from clusterjobs.parallelcluster.validation.hints import hint_for
from clusterjobs.parallelcluster.validation.optional_deps import event_loop
from clusterjobs.parallelcluster.validation.schema import about_value, stumbled
from clusterjobs.parallelcluster.validation.source_map import Positions
from clusterjobs.parallelcluster.validation.walk import Data

_LEVELS: dict[str, Level] = {"ERROR": "error", "WARNING": "warning", "INFO": "info"}
_SCOPE = ("compute_resource", "queue", "storage", "pool")  # innermost first


@dataclass
class Registered:
    """A validator with its arguments, before it runs. `owners` are sections, innermost first."""

    arguments: dict[str, Any]
    owners: list[Any]
    results: list[Any] = field(default_factory=list)


def run_validators(config: Any, data: Data) -> list[Finding]:
    """Every result of ParallelCluster's validators, each with its place in `data`."""
    from pcluster.aws.common import AWSClientError
    from pcluster.validators.common import ValidatorContext

    with event_loop(), _watched() as watch:
        try:
            config.validate(context=ValidatorContext())
        except AWSClientError as error:
            watch.stopped.append(about_value(error, data))
        except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
            watch.stopped.append(stumbled(error, data))
    positions = Positions(config, data)
    findings = [
        _finding(result, registered, positions)
        for registered in watch.ran
        for result in registered.results
    ]
    return findings + watch.stopped


def _finding(result: Any, registered: Registered, positions: Positions) -> Finding:
    name, text = result.validator_type, str(result.message)
    path = positions.find(name, text, registered.owners)
    level = _LEVELS[result.level.name]
    return Finding(text, path, level, name, hint_for(name, text))


# ------------------------------------------------------------------ watching


class _Watch:
    """Which validators ran with which results, and what stopped them."""

    def __init__(self) -> None:
        self.ran: list[Registered] = []
        self.stopped: list[Finding] = []


@contextlib.contextmanager
def _watched() -> Iterator[_Watch]:
    from pcluster.config.common import Resource

    watch = _Watch()
    execute = Resource._validator_execute

    def register(self: Any, validator_class: Any, **arguments: Any) -> None:
        owners = _owners(self, sys._getframe(1).f_locals)
        registered = Registered(arguments, owners)
        watch.ran.append(registered)
        self._validators.append((validator_class, registered))

    def run(validator_class: Any, registered: Registered, suppressors: Any, executor: Any) -> Any:
        outcome = execute(validator_class, registered.arguments, suppressors, executor)
        if hasattr(outcome, "__await__"):
            return _await(outcome, registered)
        registered.results = list(outcome or [])
        return outcome

    with (
        patch.object(Resource, "_register_validator", register),
        patch.object(Resource, "_validator_execute", staticmethod(run)),
    ):
        yield watch


async def _await(outcome: Any, registered: Registered) -> Any:
    registered.results = list(await outcome or [])
    return registered.results


def _owners(resource: Any, variables: dict[str, Any]) -> list[Any]:
    """The loop variables of the registering line, then the object itself."""
    named = [variables[name] for name in _SCOPE if variables.get(name) is not None]
    return [*named, resource]
