"""Finds what is outdated in a config, and applies the safe changes to its text.

Everything else stays as it was written. A change is safe if it needs no decision of a person.
"""

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from clusterjobs.clusters.parallelcluster.config import CURRENT
from clusterjobs.clusters.parallelcluster.detect import (
    at,
    find_config,
    load_config,
    shell_lines,
    template_lines,
    text,
    unfilled,
)
from clusterjobs.clusters.parallelcluster.render_config import dump_scalar
from clusterjobs.clusters.parallelcluster.site_values import DYNAMIC_REFERENCE
from clusterjobs.errors import Location, Problem
from clusterjobs.validation import finding as walk
from clusterjobs.validation.finding import (
    NOT_FILLED_IN,
    REPLACED_LATER,
    Data,
    Finding,
    problems,
)
from clusterjobs.validation.own_checks import check_drivers
from clusterjobs.yaml.document import Document, Path, look_at

# ------------------------------------------------------------------ what is outdated
# Each function yields findings. A finding has an edit if the change is safe.


@dataclass(frozen=True)
class Edit:
    """A change of one value or key, or the removal of both."""

    kind: Literal["value", "key", "remove"]
    path: Path
    new: str = ""


Deprecation = tuple[Finding, Edit | None]


def find_deprecations(data: Data, release: str = CURRENT) -> list[Finding]:
    """Everything that has to change before this release of ParallelCluster accepts the config."""
    return [finding for finding, _ in deprecations(data, release)]


def with_safe_edits(data: Data, release: str = CURRENT) -> Data:
    """The data with the safe changes applied."""
    for edit in reversed([edit for _, edit in deprecations(data, release) if edit]):
        data = edited(data, edit.path, edit)
    return data


def edited(value: Any, path: Path, edit: Edit) -> Any:
    """A copy of the data with one change applied at `path`."""
    value = copy.deepcopy(value)
    holder, last = look_at(value, path[:-1]), path[-1]
    if edit.kind == "value":
        holder[last] = edit.new
        return value
    removed = holder.pop(last)
    if edit.kind == "key":
        holder[edit.new] = removed
    return value


def deprecations(data: Data, release: str) -> Iterator[Deprecation]:
    """Everything that the functions below find."""
    yield from _old_systems(data, release)
    if _numbers(release) >= _numbers("3.15.0"):
        yield from _keys_of_login_pools(data)
    yield from _old_names(data, ())
    yield from _empty_types(data)
    yield from _placeholders(data)


# ------------------------------------------------------------------ operating systems

# The first release without it (SUPPORTED_OSES in pcluster/constants.py of 3.9.1 to 3.16.1; older
# ones were not looked at), and the successor of the same family; "" if a person has to choose.
_SUCCESSORS = {
    "alinux2": ("3.16.0", "alinux2023"),
    "alinux": ("3.9.0", "alinux2023"),
    "ubuntu1604": ("3.9.0", "ubuntu2204"),
    "ubuntu1804": ("3.9.0", "ubuntu2204"),
    "ubuntu2004": ("3.14.0", "ubuntu2204"),
    "centos7": ("3.10.0", ""),
    "centos8": ("3.9.0", ""),
    "rhel7": ("3.9.0", "rhel8"),
}
_NEW_SYSTEMS = {"alinux2023": "3.10.0"}  # the first release with it


def _numbers(release: str) -> tuple[int, ...]:
    return tuple(map(int, release.split(".")))


def _old_systems(data: Data, release: str) -> Iterator[Deprecation]:
    os, path = text(at(data, "Image", "Os")), ("Image", "Os")
    gone, new = _SUCCESSORS.get(os or "", ("", ""))
    if not gone or _numbers(release) < _numbers(gone):
        return
    if _numbers(release) < _numbers(_NEW_SYSTEMS.get(new, "3.9.0")):
        new = ""
    images = [path for path, _ in walk.scalars(data) if path[-1] == "CustomAmi"]
    what = f"ParallelCluster {'.'.join(release.split('.')[:2])} does not support {os} any more"
    if not new:
        is_new = _numbers(release) >= _numbers(_NEW_SYSTEMS["alinux2023"])
        hint = f"Os: rocky9 with a CustomAmi, or rhel9{' or alinux2023' if is_new else ''}"
        yield Finding(what, path, hint=hint), None
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
    for path, written in walk.scalars(data):
        if isinstance(written, str) and (found := DYNAMIC_REFERENCE.search(written)):
            hint = "nothing is checked with it"
            yield (
                Finding(f"{found[0]}{REPLACED_LATER}", path, "info", hint=hint, unfilled=True),
                None,
            )
    for path, written in unfilled(data):
        name = next((str(step) for step in reversed(path) if isinstance(step, str)), "value")
        snake = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        hint = f'write the value, or "{{{{ site.{snake} }}}}" and {snake}: ... in site.yaml'
        yield Finding(f"{written}{NOT_FILLED_IN}", path, hint=hint, unfilled=True), None


_SHELL = "this is a shell command, not part of the config"
_TEMPLATE = "this line of a template was not filled in"


@dataclass(frozen=True)
class Upgraded:
    """The new text, the changes in it, and the problems that a person has to decide.

    `for_a_new_cluster`: how many of the changes a cluster that exists cannot take.
    The locations in `changed` refer to the old text, those in `left` and `notes` to the new one.
    `notes` say what the changes mean for a cluster that exists.
    """

    text: str
    changed: tuple[Problem, ...]
    left: tuple[Problem, ...]
    notes: tuple[Problem, ...] = ()

    @property
    def for_a_new_cluster(self) -> int:
        return len(self.notes)


def upgrade(source: str, file: str, release: str = CURRENT) -> Upgraded:
    """Apply the safe changes for this release. Raises InputError if the text is not a config."""
    document = load_config(source, file)
    base = find_config(document)
    found = [
        (finding, edit)
        for finding, edit in deprecations(look_at(document.value, base), release)
        if edit
    ]
    changed = problems(document, base, [finding for finding, _ in found])
    for _, edit in reversed(found):
        document = _apply(document, base, edit)
    text = document.text
    for index, line in reversed(shell_lines(text)):
        text = text[:index] + text[index + len(line) + 1 :]
    after = load_config(text, file)
    data = look_at(after.value, base)
    left = [*(finding for finding, _ in deprecations(data, release)), *check_drivers(data)]
    notes = [_NEW_CLUSTER] if any(edit.path == _NEW_CLUSTER.path for _, edit in found) else []
    return Upgraded(
        text,
        (*changed, *shell_problems(source, file)),
        tuple(problems(after, base, left)),
        tuple(problems(after, base, notes)),
    )


# Image.Os has the update policy UNSUPPORTED in ParallelCluster 3.16.1.
_NEW_CLUSTER = Finding(
    "a cluster that exists keeps its operating system: this file is for a new cluster",
    ("Image", "Os"),
    "info",
    hint="pcluster create-cluster, and delete the old one when nothing on it is needed: its /home "
    "and its images are not taken along",
)


def shell_problems(source: str, file: str) -> list[Problem]:
    """Shell commands that were copied together with a config."""
    lines = shell_lines(source)
    return [Problem(_SHELL, _line(source, file, *one), hint="remove the line") for one in lines]


def template_problems(source: str, file: str) -> list[Problem]:
    """Lines of the template that a config is."""
    hint = "fill the template in first, and validate the result"
    by_envsubst = f"{hint}: envsubst < {file} > cluster.yaml"
    return [
        Problem(_TEMPLATE, _line(source, file, *one), hint=by_envsubst if "$" in one[1] else hint)
        for one in template_lines(source)
    ]


def _line(source: str, file: str, index: int, line: str) -> Location:
    return Location(file, source.count("\n", 0, index) + 1, 1, line, len(line))


# ------------------------------------------------------------------ edits of the text


def _apply(document: Document, base: Path, edit: Edit) -> Document:
    """Apply one edit, and verify that the new text differs from the old data only by this edit."""
    path = (*base, *edit.path)
    expected = edited(document.value, path, edit)
    result = load_config(_EDITS[edit.kind](document, path, edit.new), document.file)
    if result.value != expected:
        raise AssertionError(f"{document.file}: {edit} changed something else")
    return result


def _set_value(document: Document, path: Path, new: str) -> str:
    start, end = document.span(path)
    written = document.text[start:end].rstrip()
    return document.text[:start] + dump_scalar(new) + document.text[start + len(written) :]


def _rename_key(document: Document, path: Path, new: str) -> str:
    start = _index_of_key(document, path)
    return document.text[:start] + new + document.text[start + len(str(path[-1])) :]


def _remove(document: Document, path: Path, _new: str) -> str:
    start = _index_of_key(document, path)
    text, end = document.text, _end(document, path)
    line = text.rfind("\n", 0, start) + 1
    if not text[line:start].strip():  # block style: the key is the first thing in its line
        newline = text.find("\n", end)
        return text[:line] + (text[newline + 1 :] if newline >= 0 else "")
    before, after = text[:start].rstrip(), text[end:].lstrip(" ")
    if after.startswith(","):
        return text[:start] + after[1:].lstrip(" ")
    return before.removesuffix(",") + text[end:]


_EDITS = {"value": _set_value, "key": _rename_key, "remove": _remove}


def _index_of_key(document: Document, path: Path) -> int:
    where = document.locate_key(path)
    lines = document.text.split("\n", where.line)[: where.line - 1]
    return sum(len(line) + 1 for line in lines) + where.column - 1


def _end(document: Document, path: Path) -> int:
    """The end of the value's last scalar or flow; the end of a block would include comments."""
    start, end = document.span(path)
    value = look_at(document.value, path)
    if document.text[start : start + 1] in "[{" or not isinstance(value, (dict, list)) or not value:
        return start + len(document.text[start:end].rstrip())
    last = len(value) - 1 if isinstance(value, list) else list(value)[-1]
    return _end(document, (*path, last))
