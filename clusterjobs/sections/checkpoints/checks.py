"""Warnings about folders that are lost or not found, and buckets that the nodes cannot access."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterjobs.sections.context import Context
from clusterjobs.sections.placement.storage import is_below
from clusterjobs.sections.plan import Checkpoints, Staging
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.staging import Data
from clusterjobs.text import Value, is_absolute, show, variable_names
from clusterjobs.yaml.document import Path


def check_bucket_access(context: Context) -> None:
    """Warn about each bucket that the nodes cannot access by the cluster's description.

    The bucket's own policy, which cannot be read here, may allow it. Buckets that are linked to a
    file system are not checked: its servers access them, not the nodes.
    """
    partition = context.facts.partition(context.placement.partition)
    if partition.bucket_access is None:
        return
    for path, place, writes in _used(context.spec.data, context.staging, context.checkpoints):
        bucket = place.removeprefix("s3://").partition("/")[0]
        if lack := partition.bucket_access.lack(bucket, writes):
            context.problem(
                path,
                f"by the cluster's config the nodes of queue {partition.name} may not "
                f"{'write to' if writes else 'read'} s3://{bucket}: {lack.what}",
                lack.hint,
                warning=True,
            )


def _used(
    data: Sequence[Data], staging: Staging, checkpoints: Checkpoints
) -> Iterator[tuple[Path, str, bool]]:
    linked = {one.target for one in staging.data if one.linked}
    for index, one in enumerate(data):
        if one.source.startswith("s3://") and one.target not in linked:
            yield ("data", index, "source"), show(one.source), False
    for export in checkpoints.exports:
        if export.target.startswith("s3://"):
            path = ("logs", "export") if export.of_job else ("checkpoints", "export")
            yield path, show(export.target), True


def check_folders(context: Context) -> None:
    """Check where logs and checkpoints are written."""
    spec = context.spec
    checkpoints, container = spec.checkpoints, spec.software.container
    _check_shared_folders(context)
    if checkpoints and "attempt" in variable_names(checkpoints.path):
        context.problem(
            ("checkpoints", "path"),
            "each attempt has a folder of its own, so that none goes on from the one before",
            "leave out {{ job.attempt }}",
            warning=True,
        )
    workdir = spec.workdir or (container.workdir if container else None)
    if checkpoints and workdir and not is_absolute(checkpoints.path):
        context.problem(
            ("checkpoints", "path"),
            f"{show(checkpoints.path)} is one folder for the job, which counts from where sbatch "
            "is called, and another for the training, which runs in workdir",
            f"the whole path: /fsx/{show(checkpoints.path)}",
        )


def _check_shared_folders(context: Context) -> None:
    """Warn about logs and checkpoints on a node's local disk: they are lost with the node."""
    facts = context.facts
    mounts = [mount.path for mount in facts.mounts]
    shared = (*facts.shared_folders, *mounts)
    for path, folder in _folders(context.spec) if facts.mounts_complete else ():
        if folder.startswith("/") and not any(is_below(folder, one) for one in shared):
            known = ", ".join(mounts) or "none but /home"
            context.problem(
                path,
                f"{show(folder)} is not on shared storage of {facts.name}",
                f"its shared folders: {known}",
                warning=True,
            )


def _folders(spec: Experiment) -> Iterator[tuple[Path, Value]]:
    if spec.workdir:
        yield ("workdir",), spec.workdir
    yield ("logs", "path"), spec.logs.path
    if spec.checkpoints:
        yield ("checkpoints", "path"), spec.checkpoints.path
