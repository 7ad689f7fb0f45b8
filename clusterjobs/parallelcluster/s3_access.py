"""The buckets that the nodes of a queue may access, by its Iam.S3Access."""

from __future__ import annotations

import fnmatch
from typing import NamedTuple

from clusterjobs.cluster.facts import Lack
from clusterjobs.parallelcluster.config import S3Access


class S3Rules(NamedTuple):
    """The entries of Iam.S3Access."""

    rules: tuple[S3Access, ...]

    def lack(self, bucket: str, writes: bool) -> Lack | None:
        """What is missing, with the entry that would grant it; None if nothing is missing."""
        entry = f"{{BucketName: {bucket}{', EnableWriteAccess: true' if writes else ''}}}"
        hint = f"Iam.S3Access of the queue needs {entry}, and the cluster an update"
        what = self._lack(bucket, writes)
        return Lack(what, hint) if what else None

    def _lack(self, bucket: str, writes: bool) -> str:
        """Reading and writing both list the bucket, which a KeyName does not allow."""
        named = [rule for rule in self.rules if fnmatch.fnmatchcase(bucket, rule.bucket)]
        whole = [rule for rule in named if not rule.has_key_name]
        if not named:
            return "its Iam.S3Access does not name it" if self.rules else "it has no Iam.S3Access"
        if not whole:
            return "its Iam.S3Access has a KeyName, with which nothing can be listed"
        if writes and not any(rule.writes for rule in whole):
            return "its Iam.S3Access lacks EnableWriteAccess"
        return ""
