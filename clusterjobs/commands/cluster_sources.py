"""Chooses how a file that describes a cluster is read, by its content.

The one place of the commands that knows which kinds of such files there are.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterjobs.cluster.source import ClusterSource
from clusterjobs.parallelcluster.source import ConfigSource
from clusterjobs.slurmcluster.detect import is_description


def cluster_source(
    text: str,
    file: str,
    site: Mapping[str, object],
    site_files: Sequence[str] = (),
    is_own: bool = True,
) -> ClusterSource:
    """A ParallelCluster config with the site's values, or a description of a Slurm cluster.

    `is_own`: the file is the user's own, not a ready one. Raises InputError with its problems.
    """
    if is_description(text):
        from clusterjobs.slurmcluster.source import DescriptionSource  # others need not load it

        return DescriptionSource(text, file)
    return ConfigSource(text, file, site, site_files, is_own)
