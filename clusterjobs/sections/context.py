"""What the sections of one job are planned from, and the records of those that are planned."""

from __future__ import annotations

import functools
from collections.abc import Mapping

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.base import Framework, Parallelism, Program, Samples
from clusterjobs.launchers import Launcher, LauncherOptions
from clusterjobs.sections.placement.storage import Storage, find_storage
from clusterjobs.sections.plan import (
    ArgumentCheck,
    Checkpoints,
    Container,
    Environment,
    Files,
    Job,
    Launch,
    Placement,
    Preflight,
    Restarts,
    Role,
    Staging,
    Steps,
    SweepJob,
)
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.load import LoadedSpec


class Context:
    """A job while it is planned. A section reads the records of the sections before it.

    `spec`: what the user wrote, completed on the way; `numbers`: the same with what the framework's
    own config files say of `model`, `parallel` and `batch`. `options`, `launcher_options`: the keys
    of the framework and of the launcher. `texts`: file name -> text of the config files.
    """

    spec: Experiment
    numbers: Experiment
    framework: Framework
    launcher: Launcher
    launcher_options: LauncherOptions | None
    parallelism: Parallelism
    batch: Samples | None
    program: Program

    placement: Placement
    restarts: Restarts | None
    points: SweepJob | None
    job: Job
    staging: Staging
    checkpoints: Checkpoints
    preflight: Preflight | None
    argument_check: ArgumentCheck | None
    environment: Environment
    container: Container | None
    launch: Launch
    steps: Steps
    roles: tuple[Role, ...]
    files: Files

    def __init__(self, loaded: LoadedSpec, facts: ClusterFacts, texts: Mapping[str, str]) -> None:
        self.spec, self.options = loaded.spec, loaded.options
        self.facts, self.texts = facts, texts
        self.diagnostics, self.provenance = Diagnostics(loaded.source), Provenance()
        self.diagnostics.add(loaded.notes)
        self.problem = self.diagnostics.problem
        self.record = self.provenance.record

    @functools.cached_property
    def storage(self) -> Storage:
        """The folders that the job's nodes see."""
        return find_storage(self.facts, self.placement.partition, self.placement.node_type)
