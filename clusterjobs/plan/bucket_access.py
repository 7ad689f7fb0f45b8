"""Whether the nodes may read and write the buckets that the job copies from and to.

A warning and no more: a bucket's own policy may let them, and who reads the config cannot see it.
What FSx shows or exports by an association is its servers' to read, and not the nodes'.
"""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Iterator

from clusterjobs.diagnostics import Diagnostics
from clusterjobs.parallelcluster.config import Cluster, Queue, S3Access
from clusterjobs.plan.exports import Export
from clusterjobs.plan.staging import Stage
from clusterjobs.spec.experiment import Experiment
from clusterjobs.yaml.document import Path


def check_bucket_access(
    experiment: Experiment,
    cluster: Cluster,
    queue_name: str,
    stages: Iterable[Stage],
    exports: Iterable[Export],
    diagnostics: Diagnostics,
) -> None:
    """Warn of each bucket to which the config of the job's queue gives no access."""
    queue = next(one for one in cluster.queues if one.name == queue_name)
    if queue.s3_access is None:
        return
    for path, place, writes in _used(experiment, stages, exports):
        bucket = place.removeprefix("s3://").partition("/")[0]
        if lacks := _lacks(queue.s3_access, bucket, writes):
            _warn(path, queue, bucket, writes, lacks, diagnostics)


def _used(
    experiment: Experiment, stages: Iterable[Stage], exports: Iterable[Export]
) -> Iterator[tuple[Path, str, bool]]:
    copied = {stage.target for stage in stages if not stage.by_association}
    for index, data in enumerate(experiment.data):
        if data.source.startswith("s3://") and data.target in copied:
            yield ("data", index, "source"), data.source, False
    for one in exports:
        if one.target.startswith("s3://") and not one.by_association:
            yield (
                ("logs", "export") if one.is_of_job else ("checkpoints", "export"),
                one.target,
                True,
            )


def _lacks(rules: tuple[S3Access, ...], bucket: str, writes: bool) -> str:
    """What is missing, in words; both directions list the bucket, which a KeyName never allows."""
    named = [rule for rule in rules if fnmatch.fnmatchcase(bucket, rule.bucket)]
    whole = [rule for rule in named if not rule.has_key_name]
    if not named:
        return "its Iam.S3Access does not name it" if rules else "it has no Iam.S3Access"
    if not whole:
        return "its Iam.S3Access has a KeyName, with which nothing can be listed"
    if writes and not any(rule.writes for rule in whole):
        return "its Iam.S3Access lacks EnableWriteAccess"
    return ""


def _warn(
    path: Path, queue: Queue, bucket: str, writes: bool, lacks: str, diagnostics: Diagnostics
) -> None:
    entry = f"{{BucketName: {bucket}{', EnableWriteAccess: true' if writes else ''}}}"
    diagnostics.problem(
        path,
        f"by the cluster's config the nodes of queue {queue.name} may not "
        f"{'write to' if writes else 'read'} s3://{bucket}: {lacks}",
        f"Iam.S3Access of the queue needs {entry}, and the cluster an update",
        warning=True,
    )
