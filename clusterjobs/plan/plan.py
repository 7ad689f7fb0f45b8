"""The plan: all values that are printed, submitted or explained, in sections.

Texts may contain shell variables, marked by `references.variable`; everything else is literal.
Paths are absolute or start with a variable. A reader of a plan does not need the spec.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.cluster.facts import BucketLink
from clusterjobs.errors import Problem
from clusterjobs.frameworks.base import Parallelism, Samples
from clusterjobs.plan.checkpoints import Checkpoints
from clusterjobs.plan.container import Container
from clusterjobs.plan.environment import Environment
from clusterjobs.plan.files import Files
from clusterjobs.plan.job import Job
from clusterjobs.plan.launch import Launch
from clusterjobs.plan.placement import Placement
from clusterjobs.plan.preflight import Preflight
from clusterjobs.plan.restarts import Restarts
from clusterjobs.plan.roles import Role
from clusterjobs.plan.staging import Staging
from clusterjobs.plan.steps import Steps
from clusterjobs.plan.sweep import SweepJob
from clusterjobs.provenance import Derived


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
    sweep: SweepJob | None
    derived: tuple[Derived, ...]
    warnings: tuple[Problem, ...]

    @property
    def links(self) -> tuple[BucketLink, ...]:
        """The links between folders and buckets that the file systems need."""
        return (*self.staging.links, *self.checkpoints.links)
