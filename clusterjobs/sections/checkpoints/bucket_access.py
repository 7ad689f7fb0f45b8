"""Whether the nodes may read and write the buckets that the job copies from and to.

A warning only: the bucket's own policy, which cannot be read here, may allow it. Buckets that are
linked to a file system are not checked: its servers access them, not the nodes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from clusterjobs.sections.checkpoints.plan import Checkpoints
from clusterjobs.sections.context import Context
from clusterjobs.sections.staging.plan import Staging
from clusterjobs.spec.experiment import Data
from clusterjobs.yaml.document import Path


def check_bucket_access(context: Context) -> None:
    """Warn about each bucket that the nodes cannot access by the cluster's description."""
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
            yield ("data", index, "source"), one.source, False
    for export in checkpoints.exports:
        if export.target.startswith("s3://"):
            path = ("logs", "export") if export.of_job else ("checkpoints", "export")
            yield path, export.target, True
