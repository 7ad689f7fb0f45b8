"""What each section gets: the Context that it plans from, and the Rendering that it prints."""

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from clusterjobs.clusters.facts import ClusterFacts
from clusterjobs.diagnostics import Diagnostics, Provenance
from clusterjobs.frameworks.base import Framework, Parallelism, Program, Samples
from clusterjobs.launchers import Launcher, LauncherOptions
from clusterjobs.sections.plan import (
    ArgumentCheck,
    Checkpoints,
    Container,
    Environment,
    Files,
    Job,
    Launch,
    Placement,
    Plan,
    Preflight,
    Restarts,
    Role,
    Staging,
    Steps,
    SweepJob,
)
from clusterjobs.sections.storage import Storage, find_storage
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.keys.sweep import Point
from clusterjobs.spec.load import LoadedSpec
from clusterjobs.text import Value


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


# ------------------------------------------------------------------ rendering
# The plans of a run's points, a table of their values, and what a section prints them with.


@dataclass(frozen=True)
class PointPlan:
    """A point with its plan. `content`: 16 hex digits, of all that decides what its ranks compute;
    a completed point with another content has to run again."""

    point: Point
    plan: Plan
    content: str

    @property
    def name(self) -> str:
        """Of a sweep's point, `0007-lr=3e-4-1a2b3c4d`; without a sweep, the job's."""
        return self.point.name

    @property
    def index(self) -> int:
        """The point's index, from 0, in the order of the spec."""
        return self.point.index

    @property
    def values(self) -> Mapping[str, Any]:
        """The swept keys and their values; empty without a sweep."""
        return self.point.values


class PointTable(NamedTuple):
    """The values of each task of an array.

    `columns`: shell variables; the first one is `point_name`. `rows`: their values, a row for each
    of `points`. `indexes`: the task of each point (SLURM_ARRAY_TASK_ID). `slots`: its place in its
    task, if points are packed; else empty. `code`: that of the site, with whose
    variables no column shares its name.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    points: tuple[PointPlan, ...]
    indexes: tuple[int, ...]
    slots: tuple[int, ...] = ()
    code: str = ""

    @property
    def is_array(self) -> bool:
        """Whether it is an array of jobs; a single point is a plain job."""
        return len(self.points) > 1 or bool(self.slots)

    @property
    def keys(self) -> tuple[str, ...]:
        """What `read_point` gets: the task of each point, `3`; `3.0` if it has several points."""
        if not self.slots:
            return tuple(map(str, self.indexes))
        return tuple(f"{a}.{b}" for a, b in zip(self.indexes, self.slots, strict=True))


class PointArray(NamedTuple):
    """One script: a plan with variables in place of what differs, and the table of its points.

    `reason`: why these points have a script of their own ("nodes: 4"); "" if all are in one.
    """

    plan: Plan
    table: PointTable
    reason: str


class Rendering(NamedTuple):
    """What the `render` of each section takes.

    It is a plan, with the spec's file and its `--set` items.
    `plan_json`: the text of plan.json. `table`: the points of a sweep. `origin`: see Inputs.
    """

    plan: Plan
    spec_file: str
    settings: tuple[str, ...]
    plan_json: Value
    table: PointTable | None = None
    origin: str = ""
