"""A description of a Slurm cluster as the source of a cluster's facts. No cluster.yaml is written.

It must not know experiments.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from clusterjobs.cluster.facts import BucketLink
from clusterjobs.cluster.slurm_nodes import SlurmShape
from clusterjobs.errors import Problem
from clusterjobs.slurmcluster.facts import cluster_facts
from clusterjobs.slurmcluster.read import read_description
from clusterjobs.slurmcluster.shape import slurm_shape


class NoFiles(NamedTuple):
    """A cluster that runs already needs no files of a job."""

    files: Mapping[str, str] = {}
    problems: tuple[Problem, ...] = ()

    def notice(self, folder: pathlib.Path) -> str:  # noqa: ARG002  # as ClusterFiles has it
        """Nothing has to be changed in the cluster."""
        return ""


class DescriptionSource:
    """A description of a Slurm cluster."""

    def __init__(self, text: str, file: str) -> None:
        """Raises InputError with all problems of the description."""
        self.description, self.document = read_description(text, file)
        self.facts = cluster_facts(self.description, file)

    def shape(self) -> SlurmShape:
        """The nodes and partitions that it stands for."""
        return slurm_shape(self.facts.name, self.description)

    def fit(self, links: Sequence[BucketLink] = ()) -> NoFiles:
        """No files: the facts name no service that links folders to buckets."""
        assert not links
        return NoFiles()
