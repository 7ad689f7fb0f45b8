"""Runs ParallelCluster's own validators on a loaded config, and locates their results.

A result has no path. Therefore the registration of each validator is recorded: the object that it
checks, its arguments, and the loop variables of the registering line (`queue`, `compute_resource`).
This module knows ParallelCluster 3.16's Resource class; `source_map.py` finds the key of a result.
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
from clusterjobs.parallelcluster.validation.schema import finding_at_value, internal_failure
from clusterjobs.parallelcluster.validation.source_map import SourceMap
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
    """Every result of ParallelCluster's validators, each with its path in `data`."""
    from pcluster.aws.common import AWSClientError
    from pcluster.validators.common import ValidatorContext

    failures: list[Finding] = []
    with event_loop(), _recorded() as registrations:
        try:
            config.validate(context=ValidatorContext())
        except AWSClientError as error:
            failures.append(finding_at_value(error, data))
        except (AttributeError, TypeError, KeyError, IndexError, ValueError) as error:
            failures.append(internal_failure(error, data))
    source_map = SourceMap(config, data)
    findings = [
        _finding(result, registered, source_map)
        for registered in registrations
        for result in registered.results
    ]
    return findings + failures


def _finding(result: Any, registered: Registered, source_map: SourceMap) -> Finding:
    name, text = result.validator_type, str(result.message)
    path = source_map.find(name, text, registered.owners)
    level = _LEVELS[result.level.name]
    return Finding(text, path, level, name, hint_for(name, text))


# ------------------------------------------------------------------ recording


@contextlib.contextmanager
def _recorded() -> Iterator[list[Registered]]:
    """Record every validator that is registered within this context, and its results."""
    from pcluster.config.common import Resource

    registrations: list[Registered] = []
    execute = Resource._validator_execute

    def register(self: Any, validator_class: Any, **arguments: Any) -> None:
        owners = _owners(self, sys._getframe(1).f_locals)
        registered = Registered(arguments, owners)
        registrations.append(registered)
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
        yield registrations


async def _await(outcome: Any, registered: Registered) -> Any:
    registered.results = list(await outcome or [])
    return registered.results


def _owners(resource: Any, variables: dict[str, Any]) -> list[Any]:
    """The loop variables of the registering line, then the object itself."""
    named = [variables[name] for name in _SCOPE if variables.get(name) is not None]
    return [*named, resource]
