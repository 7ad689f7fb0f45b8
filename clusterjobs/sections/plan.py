"""The plan: all values that are printed, submitted or explained, in sections.

Texts may contain shell variables, marked by `references.variable`; everything else is literal.
Paths are absolute or start with a variable. A reader of a plan does not need the spec.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.clusters.facts import BucketLink
from clusterjobs.diagnostics import Derived
from clusterjobs.errors import Problem
from clusterjobs.frameworks.base import Parallelism, Samples
from clusterjobs.sections.checkpoints.plan import Checkpoints
from clusterjobs.sections.container.plan import Container
from clusterjobs.sections.environment.plan import Environment
from clusterjobs.sections.files.plan import Files
from clusterjobs.sections.job.plan import Job
from clusterjobs.sections.launch.plan import Launch
from clusterjobs.sections.placement.plan import Placement
from clusterjobs.sections.points.plan import SweepJob
from clusterjobs.sections.preflight.plan import Preflight
from clusterjobs.sections.restarts.plan import Restarts
from clusterjobs.sections.roles.plan import Role
from clusterjobs.sections.staging.plan import Staging
from clusterjobs.sections.steps.plan import Steps


class Plan(NamedTuple):
    """One job."""

    job: Job
    placement: Placement
    parallelism: Parallelism
    batch: Samples | None
    environment: Environment
    files: Files
    preflight: Preflight | None
    staging: Staging
    container: Container | None
    steps: Steps
    launch: Launch
    roles: tuple[Role, ...]
    checkpoints: Checkpoints
    restarts: Restarts | None
    points: SweepJob | None
    derived: tuple[Derived, ...]
    warnings: tuple[Problem, ...]

    @property
    def links(self) -> tuple[BucketLink, ...]:
        """The links between folders and buckets that the file systems need."""
        return (*self.staging.links, *self.checkpoints.links)
