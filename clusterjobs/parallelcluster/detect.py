"""Detects whether a file is a ParallelCluster 3 config, and where the config is in it.

This module knows the alternatives (a ParallelCluster 2 config, a spec, a CloudFormation template
around a config). It must not know what the config's keys mean.
"""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from clusterjobs.errors import InputError, Location, Problem, one_problem
from clusterjobs.parallelcluster.coerce import at, bare_references, items, mask_placeholders
from clusterjobs.yaml.document import Document, Path, load

_VERSION_2 = re.compile(r"(?m)^\[(aws|global|aliases|cluster [^\]]+|vpc [^\]]+)\]\s*$")
_EXPERIMENT_KEYS = frozenset(("framework", "script", "gpus_per_node", "launcher", "cluster"))
_WHAT_IT_IS = (
    "a ParallelCluster 3 config has Scheduling: with SlurmQueues:; "
    "a description of another Slurm cluster has kind: slurm"
)


def load_config(source: str, file: str) -> Document:
    """Read the YAML by the rules of ParallelCluster's own reader.

    If unquoted placeholders (`SubnetId: {{ SUBNET }}`) make it invalid, it is read without them.
    Raises InputError, also for an unquoted `{{ site.x }}`, which must be quoted.
    """
    if found := _VERSION_2.search(source):
        where = _location(source, file, found.start(), found.end() - found.start())
        raise one_problem("a ParallelCluster 2 config", where, hint=_VERSION_2_HINT)
    try:
        return load(source, file, rules="1.1")
    except InputError as error:
        masked = mask_placeholders(source)
        if problems := _unquoted_site_values(source, file):
            raise InputError(problems) from None
        if masked == source:
            raise
        return _load_masked(masked, source, file, error)


_VERSION_2_HINT = "pcluster3-config-converter, which comes with ParallelCluster 3, converts it"


def _load_masked(masked: str, source: str, file: str, error: InputError) -> Document:
    """The document of the masked text, with the original text: positions are the same."""
    try:
        return dataclasses.replace(load(masked, file, rules="1.1"), text=source)
    except InputError:
        raise error from None


def _unquoted_site_values(source: str, file: str) -> list[Problem]:
    return [
        Problem(
            "YAML takes {{ }} without quotes for a mapping",
            _location(source, file, index, len(value)),
            hint=f'quote it: "{value}"',
        )
        for index, value in bare_references(source)
        if re.match(r"\{\{\s*site\.", value)
    ]


def find_config(document: Document) -> Path:
    """The config's path in the file, usually (). Raises InputError if there is no config."""
    value = document.value
    if value is None:
        raise one_problem("the file is empty", document.locate(()), hint=_WHAT_IT_IS)
    path = _search(value, ())
    if path is None:
        raise InputError([_why_not(document)])
    _refuse_other_schedulers(document, path)
    return path


def _search(value: Any, path: Path) -> Path | None:
    """The path of the outermost mapping with queues."""
    if isinstance(value, dict):
        if _has_queues(at(value, "Scheduling")):
            return path
        children: list[tuple[str | int, Any]] = list(value.items())
    elif isinstance(value, list):
        children = list(enumerate(value))
    else:
        return None
    searched = (_search(child, (*path, step)) for step, child in children)
    return next((found for found in searched if found is not None), None)


def _has_queues(scheduling: Any) -> bool:
    return isinstance(scheduling, dict) and (
        "SlurmQueues" in scheduling or "AwsBatchQueues" in scheduling
    )


def _refuse_other_schedulers(document: Document, path: Path) -> None:
    scheduling = (*path, "Scheduling")
    data = document.value
    for key in scheduling:
        data = data[key]
    if "SlurmQueues" not in data:
        where = document.locate_key((*scheduling, "AwsBatchQueues"))
        what = "the scheduler of this cluster is AWS Batch, and jobs are rendered for Slurm"
        raise one_problem(what, where, "Scheduling.AwsBatchQueues", hint=_WHAT_IT_IS)


def _why_not(document: Document) -> Problem:
    value = document.value
    if isinstance(value, dict) and "Scheduling" in value:
        where = document.locate_key(("Scheduling",))
        return Problem("Scheduling has no SlurmQueues", where, "Scheduling", hint=_WHAT_IT_IS)
    if inner := _text_of_a_config(value, ()):
        what = "the config is a text inside another file"
        hint = "save that text in a file of its own"
        return Problem(what, document.locate_key(inner), ".".join(map(str, inner)), hint)
    where = document.locate(())
    if isinstance(value, dict) and len(_EXPERIMENT_KEYS & value.keys()) > 1:
        return Problem(
            "an experiment, not a ParallelCluster config",
            where,
            hint="an experiment names its cluster's config with cluster:",
        )
    return Problem("not a ParallelCluster 3 config", where, hint=_WHAT_IT_IS)


def _text_of_a_config(value: Any, path: Path) -> Path | None:
    """The path of a scalar that contains a whole config, as after CloudFormation's `!Sub |`."""
    if isinstance(value, str):
        is_config = re.search(r"(?m)^Scheduling:\s*$", value) and "SlurmQueues:" in value
        return path if is_config else None
    children = value.items() if isinstance(value, dict) else enumerate(items(value))
    searched = (_text_of_a_config(child, (*path, step)) for step, child in children)
    return next((found for found in searched if found is not None), None)


def _location(source: str, file: str, index: int, width: int) -> Location:
    start = source.rfind("\n", 0, index) + 1
    line = source[start:].split("\n", 1)[0].rstrip("\r")
    return Location(file, source.count("\n", 0, index) + 1, index - start + 1, line, width)
