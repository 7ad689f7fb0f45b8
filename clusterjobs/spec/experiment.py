"""The experiment spec: what a person may write. The keys of each section are in `keys/`, in plain
classes: a model of each would take pydantic time at every start.

Whether values fit each other, the cluster or the framework is checked by the plan.
"""

from clusterjobs.spec.keys.environment import EnvironmentKeys
from clusterjobs.spec.keys.job import JobKeys, PlacementKeys
from clusterjobs.spec.keys.launch import LaunchKeys
from clusterjobs.spec.keys.model import ModelKeys
from clusterjobs.spec.keys.needs import NeedsKeys
from clusterjobs.spec.keys.preflight import PreflightKeys
from clusterjobs.spec.keys.report import ReportKeys
from clusterjobs.spec.keys.staging import CheckpointsKeys, RestartsKeys, StagingKeys
from clusterjobs.spec.keys.steps import RolesKeys, StepsKeys
from clusterjobs.spec.keys.sweep import SweepKeys
from clusterjobs.spec.model import TopLevelKeys


class Experiment(  # the keys of the last base come first
    NeedsKeys,
    SweepKeys,
    ReportKeys,
    PreflightKeys,
    RestartsKeys,
    CheckpointsKeys,
    StagingKeys,
    RolesKeys,
    StepsKeys,
    ModelKeys,
    EnvironmentKeys,
    LaunchKeys,
    PlacementKeys,
    JobKeys,
    TopLevelKeys,
):
    """One experiment: where it runs, what it runs, and its sizes.

    The keys of a framework (`zero`) are in the framework's own model.
    """
