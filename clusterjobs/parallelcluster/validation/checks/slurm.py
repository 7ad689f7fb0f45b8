"""Checks Slurm parameters under CustomSlurmSettings: with a wrong name slurmctld does not start."""

from __future__ import annotations

import functools
import json
import pathlib
from collections.abc import Iterator

from clusterjobs.errors import nearest
from clusterjobs.parallelcluster.coerce import at, items
from clusterjobs.parallelcluster.validation import walk
from clusterjobs.parallelcluster.validation.account import Account
from clusterjobs.parallelcluster.validation.finding import Finding
from clusterjobs.parallelcluster.validation.walk import Data
from clusterjobs.yaml.document import Path

_SETTINGS = "CustomSlurmSettings"
_LINES = ("nodename", "partitionname", "nodeset", "downnodes")  # start a line with further keys


def check_slurm_settings(data: Data, _account: Account) -> Iterator[Finding]:
    """Unknown names. A warning only, because a newer Slurm may have more than our list."""
    settings = ("Scheduling", "SlurmSettings", _SETTINGS)
    for index, entry in enumerate(items(at(data, *settings))):
        if isinstance(entry, dict) and not any(key.lower() in _LINES for key in entry):
            yield from _check_keys(entry, (*settings, index), "cluster")
    for queue in walk.queues(data):
        yield from _check_keys(at(queue[1], _SETTINGS), (*queue[0], _SETTINGS), "partition")
        for path, resource in walk.compute_resources(queue):
            yield from _check_keys(at(resource, _SETTINGS), (*path, _SETTINGS), "node")


def _check_keys(settings: object, path: Path, level: str) -> Iterator[Finding]:
    known = _names()[level]
    for key in settings if isinstance(settings, dict) else ():
        if key.lower() not in {name.lower() for name in known}:
            yield Finding(
                f"Slurm has no {level} parameter {key!r}",
                (*path, key),
                "warning",
                hint=_hint(key, level),
                at_key=True,
            )


def _hint(key: str, level: str) -> str:
    if match := nearest(key, _names()[level]):
        return f"did you mean {match}? slurmctld does not start with an unknown parameter"
    elsewhere = [
        other for other, names in _names().items() if key.lower() in {n.lower() for n in names}
    ]
    return f"it is a {elsewhere[0]} parameter" if elsewhere else "see slurm.conf(5)"


@functools.cache
def _names() -> dict[str, list[str]]:
    text = pathlib.Path(__file__).with_name("slurm_keys.json").read_text(encoding="utf-8")
    data = json.loads(text)
    return {level: data[level] for level in ("cluster", "partition", "node")}
