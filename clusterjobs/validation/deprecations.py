"""Finds outdated keys and values, and unfilled placeholders of templates, with the change to make.

Each kind has one function that yields findings. A finding has an edit if the change is safe, which
means that it needs no decision of a person. This module knows such configs; it must not change
files: `upgrade.py` applies the edits.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from clusterjobs.clusters.parallelcluster.detect import at, text, unfilled
from clusterjobs.validation import finding as walk
from clusterjobs.validation.finding import NOT_FILLED_IN, Data, Finding
from clusterjobs.yaml.document import Path


@dataclass(frozen=True)
class Edit:
    """A change of one value or key, or the removal of both."""

    kind: Literal["value", "key", "remove"]
    path: Path
    new: str = ""


Deprecation = tuple[Finding, Edit | None]


def find_deprecations(data: Data) -> list[Finding]:
    """Everything that has to change before the current ParallelCluster accepts the config."""
    return [finding for finding, _ in deprecations(data)]


def safe_edits(data: Data) -> list[tuple[Finding, Edit]]:
    """The changes that can be made without a decision of a person."""
    return [(finding, edit) for finding, edit in deprecations(data) if edit]


def with_safe_edits(data: Data) -> Data:
    """The data with the safe changes applied."""
    for _, edit in reversed(safe_edits(data)):
        data = edited(data, edit.path, edit)
    return data


def edited(value: Any, path: Path, edit: Edit) -> Any:
    """A copy of the data with one change applied at `path`."""
    value = copy.deepcopy(value)
    holder = value
    for step in path[:-1]:
        holder = holder[step]
    last = path[-1]
    if edit.kind == "value":
        holder[last] = edit.new
        return value
    removed = holder.pop(last)
    if edit.kind == "key":
        holder[edit.new] = removed
    return value


def deprecations(data: Data) -> Iterator[Deprecation]:
    """Everything that the functions below find."""
    yield from _old_systems(data)
    yield from _keys_of_login_pools(data)
    yield from _old_names(data, ())
    yield from _empty_types(data)
    yield from _placeholders(data)


# ------------------------------------------------------------------ operating systems

# The successor of the same family in ParallelCluster 3.16; "" if a person has to choose.
_SUCCESSORS = {
    "alinux2": "alinux2023",
    "alinux": "alinux2023",
    "ubuntu1604": "ubuntu2204",
    "ubuntu1804": "ubuntu2204",
    "ubuntu2004": "ubuntu2204",
    "centos7": "",
    "centos8": "",
    "rhel7": "rhel8",
}


def _old_systems(data: Data) -> Iterator[Deprecation]:
    os, path = text(at(data, "Image", "Os")), ("Image", "Os")
    if os not in _SUCCESSORS:
        return
    new = _SUCCESSORS[os]
    images = [path for path, _ in walk.scalars(data) if path[-1] == "CustomAmi"]
    what = f"ParallelCluster 3.16 does not support {os} any more"
    if not new:
        yield Finding(what, path, hint="Os: rocky9 with a CustomAmi, or rhel9 or alinux2023"), None
    elif images:
        hint = f"Os: {new}, and a CustomAmi built for it: this CustomAmi was built for {os}"
        yield Finding(what, path, hint=hint), None
    else:
        yield Finding(what, path, hint=f"Os: {new}"), Edit("value", path, new)


# ------------------------------------------------------------------ keys


def _keys_of_login_pools(data: Data) -> Iterator[Deprecation]:
    for path, pool in walk.login_pools(data):
        ssh = at(pool, "Ssh")
        if at(ssh, "KeyName") is not None:
            key = (*path, "Ssh", "KeyName")
            what = "a login pool has no key of its own any more: it uses the head node's"
            removed = key if len(ssh) > 1 else key[:-1]  # an empty `Ssh:` would be an error too
            yield Finding(what, key, hint="remove it", at_key=True), Edit("remove", removed)


_NEW_NAMES = {
    "DisableHyperthreading": "DisableSimultaneousMultithreading",
    "CustomLambdaResources": "LambdaFunctionsRole",
}


def _old_names(value: Any, path: Path) -> Iterator[Deprecation]:
    children = value.items() if isinstance(value, dict) else enumerate(value)
    for key, inner in children:
        inner_path = (*path, key)
        if key in _NEW_NAMES:
            new = _NEW_NAMES[key]
            finding = Finding(f"{key} is now called {new}", inner_path, hint=f"{new}:", at_key=True)
            yield finding, Edit("key", inner_path, new)
        elif isinstance(inner, (dict, list)):
            yield from _old_names(inner, inner_path)


def _empty_types(data: Data) -> Iterator[Deprecation]:
    for queue in walk.queues(data):
        for path, resource in walk.compute_resources(queue):
            if "InstanceType" in resource and resource["InstanceType"] in (None, ""):
                what = "InstanceType is empty"
                hint = "write the type, for example InstanceType: p4d.24xlarge"
                yield Finding(what, (*path, "InstanceType"), hint=hint), None


# ------------------------------------------------------------------ placeholders


def _placeholders(data: Data) -> Iterator[Deprecation]:
    for path, written in unfilled(data):
        yield _unfilled(written, path), None


def _unfilled(written: str, path: Path) -> Finding:
    return Finding(f"{written}{NOT_FILLED_IN}", path, hint=_how_to_fill(path), unfilled=True)


def _how_to_fill(path: Path) -> str:
    name = next((str(step) for step in reversed(path) if isinstance(step, str)), "value")
    snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
    return f'write the value, or "{{{{ site.{snake} }}}}" and {snake}: ... in site.yaml'
