"""Where the facts of a cluster come from, and what a source writes for a job.

`commands/` knows sources by this protocol alone; a plan and a render know nothing of them.
"""

from __future__ import annotations

import pathlib
from collections.abc import Mapping, Sequence
from typing import Protocol

from clusterjobs.cluster.facts import BucketLink, ClusterFacts
from clusterjobs.errors import Problem


class ClusterFiles(Protocol):
    """What a source has written for a job, and what it could not."""

    @property
    def files(self) -> Mapping[str, str]:
        """File name -> text, beside the job script: `cluster.yaml`."""

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What stands in the way of the job; an error among them stops the render."""

    def notice(self, folder: pathlib.Path) -> str:
        """What a person has to do to the cluster before the job starts; "" where it is nothing.

        `folder` is where the files are written to.
        """


class ClusterSource(Protocol):
    """A description of a cluster that has been read."""

    facts: ClusterFacts

    def fit(self, links: Sequence[BucketLink] = ()) -> ClusterFiles:
        """The files for a job that wants these links. Raises InputError where none can be made."""
