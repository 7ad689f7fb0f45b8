"""The mounts of a container: those that the job needs, and the spec's own.

It knows folders of the node and of the image. It must not know the options of a runtime.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.frameworks.base import JOB_DIR, folder_on_the_node
from clusterjobs.plan.fabrics import fabric_of
from clusterjobs.plan.job import Job
from clusterjobs.plan.placement import Placement
from clusterjobs.plan.storage import is_below
from clusterjobs.provenance import Provenance
from clusterjobs.spec import experiment as spec
from clusterjobs.spec.references import expanding, has_variable, show
from clusterjobs.yaml.document import Path


class Mounted(NamedTuple):
    """A folder of the node in the container. `path`: the key of the spec that asks for it."""

    source: str
    target: str
    read_only: bool
    reason: str
    path: Path = ("software", "container")


def plan_mounts(
    container: spec.Container,
    folders: Iterable[Folder],
    placement: Placement,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> tuple[Mounted, ...]:
    """All mounts, each once. `folders`: those that the job needs at their path on the node."""
    automatic = (*_each_once(folders), *_of_the_fabric(container, placement))
    whose = dict.fromkeys(automatic, "the job mounts it by itself")
    mounts = list(automatic)
    for one in _own(container):
        same = [other for other in mounts if _shows_the_same(one, other)]
        overlapping = [other for other in mounts if other not in same and _overlap(one, other)]
        for other in overlapping:
            _refuse(one, other, whose[other], diagnostics)
        if not any(is_below(one.target, other.target) for other in same):
            mounts = [other for other in mounts if other not in same]  # `one` contains them
            mounts.append(one)
            whose[one] = diagnostics.line_of(one.path)
    if container.runtime == "shifter":  # it mounts what the site shares (siteFs in udiRoot.conf)
        mounts = [one for one in mounts if one not in automatic]
    for mount in mounts:
        _check_writable(container.runtime, mount, diagnostics)
        if mount in automatic:
            provenance.record(f"mount {show(mount.target)}", show(mount.source), mount.reason)
    return tuple(mounts)


def _overlap(one: Mounted, other: Mounted) -> bool:
    return is_below(one.target, other.target) or is_below(other.target, one.target)


def _shows_the_same(one: Mounted, other: Mounted) -> bool:
    """Whether one of them is needless: the other shows the same folder at the same path."""
    if one.read_only != other.read_only or not _overlap(one, other):
        return False
    inner, outer = (one, other) if is_below(one.target, other.target) else (other, one)
    below = pathlib.PurePosixPath(inner.target).relative_to(outer.target)
    return pathlib.PurePosixPath(inner.source) == pathlib.PurePosixPath(outer.source) / below


def _refuse(one: Mounted, other: Mounted, whose: str, diagnostics: Diagnostics) -> None:
    target, others = _normal(one.target), _normal(other.target)
    if target != others:
        what = f"{show(target)} and {show(others)} overlap: one is inside the other: {whose}"
        diagnostics.problem(one.path, what, "choose another target")
    elif _normal(one.source) == _normal(other.source):
        what = f"{show(target)} is mounted both read-only and writable: {whose}"
        diagnostics.problem(one.path, what, "remove one of the two")
    else:
        what = f"{show(target)} is mounted twice: {whose}"
        diagnostics.problem(one.path, what, "remove one of the two")


def _normal(path: str) -> str:
    return re.sub("/+", "/", path).rstrip("/")


def _own(container: spec.Container) -> Iterator[Mounted]:
    for index, one in enumerate(container.mounts):
        source, target = expanding(one.source), expanding(one.target)
        path = ("software", "container", "mounts", index)
        yield Mounted(source, target, one.read_only, "mounts: of the spec", path)


Folder = tuple[Path, str, str]  # the key of the spec that needs it, the folder, the reason


def needed_folders(
    container: spec.Container,
    facts: ClusterFacts,
    job: Job,
    checkpoints: str | None,
    data: Sequence[spec.Data],
) -> Iterator[Folder]:
    """The folders that the job needs inside."""
    key = ("software", "container")
    for mount in facts.mounts:
        yield key, mount.path, f"shared storage of {facts.name}"
    if job.workdir or not container.workdir:
        yield ("workdir",), job.workdir or folder_on_the_node("."), "where the program runs"
    logs = job.folder.rpartition("/")[0]
    folder = JOB_DIR if has_variable(logs) else logs
    yield ("logs", "path"), folder, "the job's own folder: its configs and records"
    if checkpoints:
        yield ("checkpoints", "path"), checkpoints, "checkpoints"
    for index, one in enumerate(data):
        yield ("data", index, "target"), folder_on_the_node(one.target), "data"


def _each_once(folders: Iterable[Folder]) -> Iterator[Mounted]:
    """Each at its path on the node; a folder below another one needs no mount of its own."""
    seen: list[pathlib.PurePosixPath] = []
    for path, folder, reason in folders:
        place = pathlib.PurePosixPath(folder)
        if not any(place.is_relative_to(other) for other in seen):
            seen.append(place)
            yield Mounted(folder, folder, False, reason, path)


def _of_the_fabric(container: spec.Container, placement: Placement) -> Iterator[Mounted]:
    fabric = fabric_of(placement.fabric)
    if fabric.verbs and container.runtime == "pyxis":
        # enroot shows all of /dev, unless the site restricts it (ENROOT_RESTRICT_DEV).
        yield Mounted("/dev/infiniband", "/dev/infiniband", False, f"{fabric.title}'s devices")
    for folder in fabric.folders if placement.all_nodes > 1 else ():
        yield Mounted(folder, folder, False, f"{fabric.title}: NCCL's plugin and its devices")
    if placement.fabric == "efa" and container.efa == "host":
        yield Mounted("/opt/amazon", "/opt/amazon", True, "EFA's libraries, by efa: host")


def _check_writable(runtime: str, mount: Mounted, diagnostics: Diagnostics) -> None:
    """Refuse paths with the characters that separate mounts or their parts."""
    separators = {"pyxis": ' :,"\\', "shifter": ':,;"'}.get(runtime, ':,"')
    for sign in separators:
        if sign in mount.source or sign in mount.target:
            diagnostics.problem(
                mount.path,
                f"{runtime} cannot mount {show(mount.source)}: {sign!r} separates its mounts",
                "rename the folder",
            )
            return
