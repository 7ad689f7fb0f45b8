"""The plan: all that is printed, submitted or explained, finished. Plain data, no text of bash."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.errors import Problem
from clusterjobs.frameworks.base import ConfigFile, Parallelism, Samples, Shape, Variable
from clusterjobs.launchers import Launcher
from clusterjobs.parallelcluster.associations import DataRepositoryAssociation
from clusterjobs.plan.container import ContainerPlan
from clusterjobs.plan.directives import Directive
from clusterjobs.plan.exports import Export
from clusterjobs.plan.inputs import Input
from clusterjobs.plan.placement import Placement
from clusterjobs.plan.preflight import PreflightPlan
from clusterjobs.plan.restarts import RestartPlan
from clusterjobs.plan.staging import Stage
from clusterjobs.provenance import Derived
from clusterjobs.spec.experiment import Experiment


class Plan(NamedTuple):
    """One job. `command` is what the launcher is given, word by word.

    `marker`: a file that the training writes after each complete checkpoint.
    `programs`: files of the room `node/` that the job takes along.
    `interface`: the network interface of the ranks, where the spec names one.
    `starts_script`: it begins with a Python script that the launcher runs, else with a program.
    """

    experiment: Experiment
    cluster_name: str
    launcher: Launcher
    placement: Placement
    shape: Shape
    parallelism: Parallelism
    samples: Samples | None
    marker: str | None
    restarts: RestartPlan | None
    directives: tuple[Directive, ...]
    srun_options: tuple[Directive, ...]
    environment: tuple[Variable, ...]
    own_slurm_variables: tuple[str, ...]
    unset: tuple[str, ...]
    starts_script: bool
    interface: str | None
    command: tuple[str, ...]
    files: tuple[ConfigFile, ...]
    programs: tuple[str, ...]
    inputs: tuple[Input, ...]
    stages: tuple[Stage, ...]
    exports: tuple[Export, ...]
    preflight: PreflightPlan | None
    associations: tuple[DataRepositoryAssociation, ...]
    container: ContainerPlan | None
    derived: tuple[Derived, ...]
    warnings: tuple[Problem, ...]
