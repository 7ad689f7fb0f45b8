"""How each data set of a spec gets to where the job wants it, and what cannot be.

FSx for Lustre shows a bucket by a data repository association: it lists the bucket when the
association is made and reads a file from it when the file is first read, or when it is told to
beforehand. Everything else is copied by the job.
Source: the FSx for Lustre user guide, "Linking your file system to an S3 bucket" and "Preloading
files into your file system".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.errors import Location
from clusterjobs.parallelcluster.associations import DataRepositoryAssociation
from clusterjobs.plan.exports import Export
from clusterjobs.plan.staging_checks import check_data, check_overlaps, check_room
from clusterjobs.plan.storage import Storage
from clusterjobs.provenance import Provenance
from clusterjobs.resources import with_imports
from clusterjobs.spec.experiment import Data, Experiment
from clusterjobs.spec.references import show


class Stage(NamedTuple):
    """One data set on its way. `by_association`: FSx shows it, and the job only preloads it."""

    source: str
    target: str
    per_node: bool
    by_association: bool
    unpack: bool
    check: str
    reason: str
    where: Location


def resolve_stages(
    experiment: Experiment, storage: Storage, diagnostics: Diagnostics, provenance: Provenance
) -> tuple[Stage, ...]:
    """Shared data first, for what a node's own disk gets may come from there."""
    stages = [
        _stage(index, data, experiment.name, storage, diagnostics, provenance)
        for index, data in enumerate(experiment.data)
    ]
    check_overlaps(experiment.data, diagnostics)
    check_room(experiment.data, storage, diagnostics)
    return tuple(sorted(stages, key=lambda stage: stage.per_node))


def _stage(
    index: int,
    data: Data,
    name: str,
    storage: Storage,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> Stage:
    path = ("data", index)
    check_data(index, data, storage, diagnostics)
    by_association = _by_association(index, data, storage, diagnostics)
    how, reason, source = _explained(data, by_association)
    provenance.record(f"data[{index}]", how, reason, source)
    return Stage(
        data.source,
        data.target,
        data.scope == "node",
        by_association,
        data.unpack,
        data.check,
        f"data of the experiment {name}",
        diagnostics.where((*path, "target")),
    )


def _by_association(index: int, data: Data, storage: Storage, diagnostics: Diagnostics) -> bool:
    possible = data.source.startswith("s3://") and data.scope == "shared" and not data.unpack
    on_lustre = storage.is_on_lustre(data.target)
    if data.via != "association":
        return possible and on_lustre and data.via is None
    if not possible:
        diagnostics.problem(
            ("data", index, "via"),
            "an association shows a bucket as it is, in a folder that all nodes share",
            "via: copy",
        )
    elif not on_lustre:
        diagnostics.problem(
            ("data", index, "target"),
            f"{show(data.target)} is not a fixed folder on FSx for Lustre, which alone shows a "
            "bucket",
            f"file systems: {_lustre(storage)}; elsewhere, via: copy",
        )
    return True


def _lustre(storage: Storage) -> str:
    return ", ".join(storage.lustre) or f"{storage.cluster} has none"


def _explained(data: Data, by_association: bool) -> tuple[str, str, str]:
    if by_association:
        return (
            f"{data.target}: shown by FSx, and preloaded before the training",
            "a bucket on FSx for Lustre is read by its servers, and the job only asks for it",
            "FSx for Lustre user guide: lfs hsm_restore",
        )
    where = "to every node's own disk" if data.scope == "node" else "once, for all nodes"
    verb = "unpacked" if data.unpack else "copied"
    tool = "by s5cmd or aws" if data.source.startswith("s3://") else "by several processes"
    return f"{data.target}: {verb} {where}", f"from {show(data.source)}, {tool}", ""


# ------------------------------------------------------------------ what follows


def associations_of(
    stages: Iterable[Stage], exports: Iterable[Export]
) -> tuple[DataRepositoryAssociation, ...]:
    """What the cluster's file systems must have."""
    shown = [
        DataRepositoryAssociation(stage.target, stage.source, stage.reason, False, stage.where)
        for stage in stages
        if stage.by_association
    ]
    exported = [
        DataRepositoryAssociation(one.source, one.target, one.reason, True, one.where)
        for one in exports
        if one.by_association
    ]
    return (*shown, *exported)


def programs_of(stages: Sequence[Stage], exports: Iterable[Export]) -> tuple[str, ...]:
    """The programs that the job carries; stage.py imports the last two only by name."""
    copied = [stage for stage in stages if not stage.by_association]
    needed = {
        "preload.py": any(stage.by_association for stage in stages),
        "export.py": any(not one.by_association for one in exports),
        "stage.py": bool(copied),
        "stage_s3.py": any(stage.source.startswith("s3://") for stage in copied),
        "stage_archive.py": any(stage.unpack for stage in copied),
    }
    return with_imports(name for name, is_needed in needed.items() if is_needed)
