"""The results of checks, by their path in the config, and how they become located problems."""

import dataclasses
from collections.abc import Iterable, Iterator
from typing import Any, Literal

from clusterjobs.clusters.parallelcluster.detect import at, items, text
from clusterjobs.errors import Problem
from clusterjobs.yaml.document import Document, Path, dotted, look_at

Level = Literal["error", "warning", "info"]


@dataclasses.dataclass(frozen=True)
class Finding:
    """One result: `validator` is the name of ParallelCluster's validator, "" for our own checks.

    `path` is the path in the config; `at_key` if the key is wrong, not its value. `text` is the
    unchanged message of the check. `unfilled`: the value is a placeholder, which explains
    everything else that is found at `path`.
    """

    text: str
    path: Path
    level: Level = "error"
    validator: str = ""
    hint: str = ""
    at_key: bool = False
    unfilled: bool = False


def problems(document: Document, base: Path, findings: Iterable[Finding]) -> list[Problem]:
    """The findings with their lines, in file order. `base` is the config's path in the file."""
    located = [_problem(document, base, finding) for finding in merge(findings)]
    return sorted(located, key=lambda p: (p.where.line, p.where.column) if p.where else (0, 0))


def _problem(document: Document, base: Path, finding: Finding) -> Problem:
    path = (*base, *finding.path)
    at_key = finding.at_key or (
        has(document.value, path) and isinstance(look_at(document.value, path), (dict, list))
    )  # the key of a map or a list is a better location than its content
    return Problem(
        _as_written(document, path, finding) if finding.unfilled else finding.text,
        document.locate_key(path) if at_key else document.locate(path),
        dotted(finding.path),
        finding.hint,
        warning=finding.level != "error",
        info=finding.level == "info",
        validator=finding.validator,
    )


def _as_written(document: Document, path: Path, finding: Finding) -> str:
    """The text with the placeholder as the file has it, where it was masked to read the file."""
    start, end = document.span(path)
    written = document.text[start:end].strip()
    value = look_at(document.value, path)
    masked = isinstance(value, str) and value not in written and "\n" not in written
    return finding.text.replace(value, written) if masked else finding.text


def has(value: Any, path: Path) -> bool:
    """Whether the data has something at the path."""
    for step in path:
        known: Any = dict(enumerate(value)) if isinstance(value, list) else value
        if not isinstance(known, dict) or step not in known:
            return False
        value = known[step]
    return True


def merge(findings: Iterable[Finding]) -> list[Finding]:
    """Each finding once. If ParallelCluster reports it too, its text with our hint."""
    found = _without_consequences(list(dict.fromkeys(findings)))
    ours = [f for f in found if not f.validator]
    duplicates = {own: next((f for f in found if _is_duplicate(f, own)), None) for own in ours}
    hints = {theirs: own.hint for own, theirs in duplicates.items() if theirs}
    return [
        dataclasses.replace(f, hint=f.hint or hints.get(f, ""))
        for f in found
        if f.validator or not duplicates[f]
    ]


def _without_consequences(found: list[Finding]) -> list[Finding]:
    """The findings without what else is said of a value that was not filled in."""
    causes = [finding for finding in found if finding.unfilled]
    return [
        finding
        for finding in found
        if finding.unfilled or not any(_follows(finding, cause) for cause in causes)
    ]


REPLACED_LATER = " is replaced by CloudFormation"
CRASH = "ParallelCluster crashes on this config"


def _follows(finding: Finding, cause: Finding) -> bool:
    if finding.text.startswith(CRASH):
        return True
    placeholder = cause.text.removesuffix(NOT_FILLED_IN).removesuffix(REPLACED_LATER)
    return finding.path[: len(cause.path)] == cause.path or placeholder in finding.text


NOT_FILLED_IN = " was not filled in"


def _is_duplicate(theirs: Finding, ours: Finding) -> bool:
    if not theirs.validator or theirs.path != ours.path:
        return False
    return theirs.level in ("error", ours.level)


# ------------------------------------------------------------------ parts of a config

Data = dict[str, Any]
Entry = tuple[Path, Data]  # the path of a mapping, and the mapping

FSX_LUSTRE = "FsxLustreSettings"


def entries(data: Any, path: Path, key: str) -> Iterator[Entry]:
    """The mappings in the list under `key`."""
    for index, entry in enumerate(items(at(data, key))):
        if isinstance(entry, dict):
            yield (*path, key, index), entry


def queues(data: Data) -> Iterator[Entry]:
    return entries(at(data, "Scheduling"), ("Scheduling",), "SlurmQueues")


def compute_resources(queue: Entry) -> Iterator[Entry]:
    """Every entry of one queue's ComputeResources."""
    return entries(queue[1], queue[0], "ComputeResources")


def login_pools(data: Data) -> Iterator[Entry]:
    return entries(at(data, "LoginNodes"), ("LoginNodes",), "Pools")


def storages(data: Data) -> Iterator[Entry]:
    return entries(data, (), "SharedStorage")


def associations(storage: Entry) -> Iterator[Entry]:
    """Every data repository association of one Lustre file system."""
    path, entry = storage
    return entries(at(entry, FSX_LUSTRE), (*path, FSX_LUSTRE), "DataRepositoryAssociations")


def instance_types(resource: Data) -> list[str]:
    """The types of a compute resource, from `InstanceType` or `Instances`."""
    several = [at(entry, "InstanceType") for entry in items(at(resource, "Instances"))]
    return [known for kind in [*several, at(resource, "InstanceType")] if (known := text(kind))]


def all_instance_types(data: Data) -> list[str]:
    """The types of the head node, the login nodes and all compute resources."""
    resources = [entry for queue in queues(data) for _, entry in compute_resources(queue)]
    pools = [pool for _, pool in login_pools(data)]
    owners = [at(data, "HeadNode"), *pools, *resources]
    return [kind for owner in owners for kind in instance_types(owner)]


def subnet_ids(owner: Data) -> list[str]:
    """The subnets of a queue, a login pool or the head node."""
    networking = at(owner, "Networking")
    listed = [*items(at(networking, "SubnetIds")), at(networking, "SubnetId")]
    return [known for subnet in listed if (known := text(subnet))]


def scalars(value: Any, path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Every scalar in the value, with its path."""
    if isinstance(value, dict):
        for key, item in value.items():
            yield from scalars(item, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from scalars(item, (*path, index))
    elif value is not None:
        yield path, value
