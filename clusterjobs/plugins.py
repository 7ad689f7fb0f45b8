"""What plug-ins add to the core: commands, checks and blocks of a plan, and services.

A plug-in enters an object by an entry point, in the group of the registry below and under the
object's own name. docs/plugins.md has an example; the plug-ins of this package do the same.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from clusterjobs.registry import Registry

if TYPE_CHECKING:
    from clusterjobs.clusters.source import ClusterSource
    from clusterjobs.errors import Problem
    from clusterjobs.models.records import Range
    from clusterjobs.sections.plan import Plan
    from clusterjobs.sections.render import Inputs
    from clusterjobs.sites.folders import SiteFolders
    from clusterjobs.spec.load import LoadedSpec


class PlannedJob(NamedTuple):
    """A job, or a point of a sweep, with what its plan was made from.

    `inputs`: what its files are rendered from. `texts`: of the config files that the spec names.
    `content`: a hash of all that decides what the ranks compute.
    """

    plan: Plan
    loaded: LoadedSpec
    source: ClusterSource
    site: SiteFolders
    inputs: Inputs
    texts: Mapping[str, str]
    content: str


class Command(NamedTuple):
    """A command of the command line. `clusters.import` is the subcommand `import` of `clusters`.

    `target`: module:object, imported when the command is called. `help`: its line in --help; ""
    hides it. `after`: the command that it follows in --help; "" adds it at the end.
    """

    name: str
    target: str
    help: str
    after: str = ""


class Check(NamedTuple):
    """Warnings about finished plans: of one job, or of all points of a sweep.

    `check` gets the jobs, and whether --strict was given: then it returns errors for what must not
    be submitted. A problem of some points names them (`Problem.points`).
    """

    name: str
    check: Callable[[Sequence[PlannedJob], bool], Iterable[Problem]]


class Block(NamedTuple):
    """A block of `clusterjobs plan`, behind the summary; `plan --json` has its data under its name.

    `text` may give none; `data` is what JSON can hold.
    """

    name: str
    text: Callable[[PlannedJob], Iterable[str]]
    data: Callable[[PlannedJob], Any]


class Prediction(NamedTuple):
    """What is expected of a job; None where nothing is."""

    step_seconds: Range | None = None
    tokens_per_second_per_gpu: Range | None = None
    tflops_per_gpu: Range | None = None
    mfu: Range | None = None
    memory_gib: Range | None = None


class Unknown(NamedTuple):
    """Why nothing can be predicted, and what would help. "" if there is nothing to say.

    `problems`: of the files that could not be read.
    """

    why: str
    hint: str = ""
    problems: tuple[Problem, ...] = ()


class Predictor(NamedTuple):
    """Predicts a job, for `report --against`."""

    name: str
    predict: Callable[[PlannedJob], Prediction | Unknown]


class Reader(NamedTuple):
    """Reads what a run achieved from its log, and from the job's folder if there is one.

    The data are those of one run in `report --json`. Raises InputError for an unreadable log.
    """

    name: str
    read: Callable[[pathlib.Path, PlannedJob, pathlib.Path | None], Mapping[str, Any]]


class LocalCluster(NamedTuple):
    """A cluster on this machine, whose shell has `variable` set.

    `path_here`: the file on this machine for a path of the cluster, by the variable's value.
    `start_ranks`: starts the ranks of named jobs as their scripts would; gives the name and the
    result of each, as it is known: passed, failed or skipped.
    """

    name: str
    variable: str
    path_here: Callable[[str, str], pathlib.Path]
    start_ranks: Callable[[Iterable[tuple[str, PlannedJob]]], Iterable[tuple[str, str]]]


COMMANDS = Registry("clusterjobs.commands", Command)
CHECKS = Registry("clusterjobs.checks", Check)
BLOCKS = Registry("clusterjobs.blocks", Block)
PREDICTORS = Registry("clusterjobs.predictors", Predictor)
READERS = Registry("clusterjobs.readers", Reader)
LOCAL_CLUSTERS = Registry("clusterjobs.local_clusters", LocalCluster)


def check_plans(jobs: Sequence[PlannedJob], strict: bool = False) -> tuple[Problem, ...]:
    """The problems that the checks of all plug-ins find."""
    return tuple(problem for one in CHECKS.values() for problem in one.check(jobs, strict))


def local_cluster() -> LocalCluster | None:
    """The local cluster whose shell this is; None outside of one."""
    return next((one for one in LOCAL_CLUSTERS.values() if os.environ.get(one.variable)), None)


def predict(job: PlannedJob) -> Prediction | Unknown:
    """The first prediction that a plug-in gives, or why there is none."""
    found = [one.predict(job) for one in PREDICTORS.values()]
    return next((one for one in found if isinstance(one, Prediction)), found[0])


def read_run(
    log: pathlib.Path, job: PlannedJob, folder: pathlib.Path | None = None
) -> Mapping[str, Any]:
    """What a run achieved: see `Reader`."""
    return next(iter(READERS.values())).read(log, job, folder)


# ------------------------------------------------------------------ lab paths
# Paths of the cluster as paths on this machine: `/fsx` is another folder in the shell of a lab.


def named_here(path: pathlib.Path) -> pathlib.Path:
    """A path from the command line: itself if it exists, else the local cluster's file for it."""
    return path if path.exists() else on_this_machine(path)


def on_this_machine(path: str | pathlib.Path) -> pathlib.Path:
    """The path itself; in the shell of a local cluster, its file for this path."""
    here = local_cluster()
    if here is None:
        return pathlib.Path(path)
    return here.path_here(os.environ[here.variable], str(path))
