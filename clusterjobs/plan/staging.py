"""What a job wants of the cluster's file systems: buckets shown as folders, folders exported.

FSx for Lustre does it by data repository associations: it lists a bucket when the association is
made, reads a file from it when the file is first read, and copies what is written to it.
Source: the FSx for Lustre user guide, "Linking your file system to an S3 bucket".
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator

from clusterjobs.cluster.associations import DataRepositoryAssociation
from clusterjobs.cluster.facts import Cluster
from clusterjobs.ledger import Ledger
from clusterjobs.spec.experiment import Experiment
from clusterjobs.yaml_source import Path


def resolve_associations(
    experiment: Experiment, cluster: Cluster, ledger: Ledger
) -> tuple[DataRepositoryAssociation, ...]:
    """The associations that the spec's `data` and `checkpoints.export` ask for."""
    return tuple(
        DataRepositoryAssociation(folder, source, reason, export, ledger.where(path))
        for path, folder, source, reason, export in _wanted(experiment)
        if _is_on_lustre(path, folder, cluster, ledger)
    )


def _wanted(experiment: Experiment) -> Iterator[tuple[Path, str, str, str, bool]]:
    for index, data in enumerate(experiment.data):
        reason = f"data of the experiment {experiment.name}"
        yield ("data", index, "target"), data.target, data.source, reason, False
    checkpoints = experiment.checkpoints
    if checkpoints and checkpoints.export:
        reason = f"checkpoints of the experiment {experiment.name}"
        yield ("checkpoints", "export"), checkpoints.path, checkpoints.export, reason, True


def _is_on_lustre(path: Path, folder: str, cluster: Cluster, ledger: Ledger) -> bool:
    """Only FSx for Lustre has associations; copying by the job itself is not built yet."""
    mounts = [one.directory for one in cluster.mounts if one.storage_type == "FsxLustre"]
    inside = pathlib.PurePosixPath(folder)
    if "${" not in folder and any(inside.is_relative_to(mount) for mount in mounts):
        return True
    known = ", ".join(mounts) or f"{cluster.name} has none"
    ledger.problem(
        path,
        f"{folder} is not a fixed folder on FSx for Lustre, which alone shows a bucket",
        f"file systems: {known}; elsewhere, copy it by a step under before:",
    )
    return False
