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
# Keys that start a line with further keys, and the level of those; "" is not checked.
_LINES = {"nodename": "node", "partitionname": "partition", "nodeset": "", "downnodes": ""}


def check_slurm_settings(data: Data, _account: Account) -> Iterator[Finding]:
    """Unknown names: the tables of Slurm 22.05, 24.11 and 26.05 have none of them."""
    settings = ("Scheduling", "SlurmSettings", _SETTINGS)
    for index, entry in enumerate(items(at(data, *settings))):
        starts = [str(key).lower() for key in entry] if isinstance(entry, dict) else []
        level = next((_LINES[key] for key in starts if key in _LINES), "cluster")
        yield from _check_keys(entry if level else None, (*settings, index), level)
    for queue in walk.queues(data):
        yield from _check_keys(at(queue[1], _SETTINGS), (*queue[0], _SETTINGS), "partition")
        for path, resource in walk.compute_resources(queue):
            yield from _check_keys(at(resource, _SETTINGS), (*path, _SETTINGS), "node")


def _check_keys(settings: object, path: Path, level: str) -> Iterator[Finding]:
    for key in settings if isinstance(settings, dict) else ():
        if not _has(level, str(key)):
            what = f"Slurm has no {level} parameter {key!r}"
            yield Finding(what, (*path, key), hint=_hint(str(key), level), at_key=True)


def _hint(key: str, level: str) -> str:
    elsewhere = next((other for other in _names() if _has(other, key)), None)
    match = nearest(key, _names()[level])
    if elsewhere:
        what = f"it is a {elsewhere} parameter;"
    else:
        what = f"did you mean {match}?" if match else "see slurm.conf(5);"
    return f"{what} slurmctld does not start with an unknown parameter"


def _has(level: str, key: str) -> bool:
    """Slurm takes its keys in any case."""
    return key.lower() in {name.lower() for name in _names()[level]}


@functools.cache
def _names() -> dict[str, list[str]]:
    text = pathlib.Path(__file__).with_name("slurm_keys.json").read_text(encoding="utf-8")
    data = json.loads(text)
    return {level: data[level] for level in ("cluster", "partition", "node")}
