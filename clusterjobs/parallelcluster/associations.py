"""Links of folders to buckets as data repository associations of the cluster's file systems.

This module knows the file system of a folder and what FSx allows there. It must not know text, or
why a job needs a link.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from clusterjobs.cluster.facts import BucketLink
from clusterjobs.errors import Problem
from clusterjobs.parallelcluster.coerce import at, items, text
from clusterjobs.yaml.document import Path

SETTINGS = "FsxLustreSettings"
ASSOCIATIONS = "DataRepositoryAssociations"
MOST = 8  # of one file system: FsxDraValidator of ParallelCluster 3.16


class Addition(NamedTuple):
    """An entry to add below `settings`, the path of a file system's settings."""

    settings: Path
    entry: dict[str, Any]
    reason: str


def plan_additions(
    data: dict[str, Any], wanted: Sequence[BucketLink]
) -> tuple[list[Addition], list[Problem]]:
    """The entries to add to a config, and the problems that prevent others."""
    additions: list[Addition] = []
    problems: list[Problem] = []
    for association in wanted:
        outcome = _plan(data, association, additions)
        if isinstance(outcome, Addition):
            additions.append(outcome)
        elif outcome:
            problems.append(outcome)
    return additions, problems


def _plan(
    data: dict[str, Any], wanted: BucketLink, additions: Sequence[Addition]
) -> Addition | Problem | None:
    """The addition, or the problem, or None if nothing has to be added."""
    found = _storage_of(data, wanted.folder)
    if found is None:
        return Problem(
            f"{wanted.folder} lies on no Lustre file system of the cluster",
            wanted.where,
            hint=f"{wanted.bucket_path} has to be copied there by the job",
            warning=True,
        )
    path, storage, inside = found
    settings = at(storage, SETTINGS)
    if existing := text(at(settings, "FileSystemId")):
        return _of_its_owner(existing, inside, wanted)
    others = [*_entries(settings), *(a.entry for a in additions if a.settings == path)]
    if any(_covers(other, inside, wanted.bucket_path) for other in others):
        return None
    if problem := _refusal(settings, others, inside, wanted):
        return problem
    return Addition(path, _entry(inside, wanted, others), wanted.reason)


def _storage_of(data: dict[str, Any], folder: str) -> tuple[Path, dict[str, Any], str] | None:
    """The settings of the folder's file system, and the folder's path in it."""
    found: list[tuple[int, Path, dict[str, Any], str]] = []
    for index, storage in enumerate(items(at(data, "SharedStorage"))):
        mount = "/" + (text(at(storage, "MountDir")) or "").strip("/")
        if text(at(storage, "StorageType")) == "FsxLustre" and _within(folder, mount):
            inside = "/" + folder[len(mount) :].strip("/")
            found.append((len(mount), ("SharedStorage", index, SETTINGS), storage, inside))
    return max(found, key=lambda one: one[0])[1:] if found else None


def _within(path: str, outer: str) -> bool:
    return path == outer or path.startswith(outer.rstrip("/") + "/")


def _entries(settings: Any) -> Iterator[dict[str, Any]]:
    return (entry for entry in items(at(settings, ASSOCIATIONS)) if isinstance(entry, dict))


def _covers(entry: dict[str, Any], inside: str, bucket_path: str) -> bool:
    """Whether an association already links exactly this prefix to this folder."""
    folder, prefix = text(at(entry, "FileSystemPath")), text(at(entry, "DataRepositoryPath"))
    if folder is None or prefix is None or not _within(inside, folder):
        return False
    folder, prefix = folder.rstrip("/"), prefix.rstrip("/")
    return bucket_path.rstrip("/") == prefix + inside[len(folder) :].rstrip("/")


def _refusal(
    settings: Any,
    others: Sequence[dict[str, Any]],
    inside: str,
    wanted: BucketLink,
) -> Problem | None:
    what = hint = ""
    clash = next((o for o in others if _overlaps(o, inside, wanted.bucket_path)), None)
    if text(at(settings, "DeploymentType")) in (None, "SCRATCH_1"):
        what, hint = "a SCRATCH_1 file system takes no associations", "DeploymentType: SCRATCH_2"
    elif at(settings, "ImportPath") is not None or at(settings, "ExportPath") is not None:
        what, hint = "beside ImportPath or ExportPath FSx takes no associations", "remove them"
    elif clash:
        what = f"{wanted.bucket_path} overlaps the association {text(at(clash, 'Name'))}"
        hint = f"it shows {at(clash, 'DataRepositoryPath')} at {at(clash, 'FileSystemPath')}"
    elif len(others) >= MOST:
        what, hint = f"the file system has {MOST} associations, and takes no more", "join some"
    return Problem(what, wanted.where, hint=hint) if what else None


def _overlaps(entry: dict[str, Any], inside: str, bucket_path: str) -> bool:
    for key, path in (("FileSystemPath", inside), ("DataRepositoryPath", bucket_path)):
        other = (text(at(entry, key)) or "?").rstrip("/")
        if _within(path.rstrip("/"), other) or _within(other, path.rstrip("/")):
            return True
    return False


def _entry(inside: str, wanted: BucketLink, others: Sequence[dict[str, Any]]) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "Name": _free_name(inside, [str(at(other, "Name")) for other in others]),
        "FileSystemPath": inside,
        "DataRepositoryPath": wanted.bucket_path,
        "BatchImportMetaDataOnCreate": True,
    }
    policy = "AutoExportPolicy" if wanted.export else "AutoImportPolicy"
    return {**entry, policy: ["NEW", "CHANGED"]}


def _free_name(inside: str, taken: Sequence[str]) -> str:
    """A new name from the folder's last part; at most 30 letters, digits, `-` and `_`."""
    last = inside.rstrip("/").rpartition("/")[2] or "root"
    base = "".join(c if c.isascii() and (c.isalnum() or c in "-_") else "-" for c in last)[:24]
    names = [base, *(f"{base}-{number}" for number in range(2, MOST + 2))]
    return next(name for name in names if name not in taken)


def _of_its_owner(name: str, inside: str, wanted: BucketLink) -> Problem:
    """A warning that says what an existing file system needs: only its owner can change it."""
    return Problem(
        f"{name} is left as it is, and may lack the association of {inside} "
        f"with {wanted.bucket_path}",
        wanted.where,
        hint=f"aws fsx create-data-repository-association --file-system-id {name} "
        f"--file-system-path {inside} --data-repository-path {wanted.bucket_path}",
        warning=True,
    )
