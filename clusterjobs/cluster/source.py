"""A source of cluster facts: what it reads, and which files it writes for a job.

`commands/` uses sources through this protocol only; plan/ and render/ do not know them.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from clusterjobs.cluster.facts import BucketLink, ClusterFacts
from clusterjobs.cluster.slurm_nodes import SlurmShape
from clusterjobs.errors import Problem


class ClusterFiles(Protocol):
    """The files that a source has written for a job, and the problems it found."""

    @property
    def files(self) -> Mapping[str, str]:
        """File name -> text, beside the job script: `cluster.yaml`."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """Problems with the cluster for this job; an error stops the render."""

    def notice(self, folder: pathlib.Path) -> str:
        """What the user has to change in the cluster before the job starts; "" if nothing.

        `folder` is the folder of the files.
        """


class ClusterSource(Protocol):
    """The description of one cluster."""

    facts: ClusterFacts

    def shape(self) -> SlurmShape:
        """The cluster as a lab imitates it. Raises InputError if what that needs is unknown."""

    def fit(self, links: Sequence[BucketLink] = ()) -> ClusterFiles:
        """The files for a job that needs these links. Raises InputError if that is impossible."""
