"""Warns of a job that may get nodes of another type than it is planned for.

It knows what selects a node type in Slurm: a feature, or the type of the GPUs.
"""

from __future__ import annotations

from clusterjobs.cluster.facts import ClusterFacts
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.plan.gpu_requests import gpu_request
from clusterjobs.plan.placement import Placement
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.gpu_count import gpu_type


def check_node_type(
    experiment: Experiment, placement: Placement, facts: ClusterFacts, diagnostics: Diagnostics
) -> None:
    """Warn if nothing in the job selects its node type, where the partition has others."""
    wanted = placement.node_type
    groups = facts.partition(placement.partition).node_groups
    others = [one.node_type for one in groups if one.node_type.name != wanted.name]
    request = gpu_request(experiment.sbatch)
    by_type = gpu_type(experiment.gpus_per_node) or (request and request.type)
    selected = placement.constraint or "constraint" in experiment.sbatch or by_type
    if not others or selected:
        return
    own, gpus = wanted.gpu_gres_type, placement.shape.gpus_per_node
    hint = (
        f"add a feature to {wanted.name} in the cluster's description, or sbatch: {{constraint:}}"
    )
    if gpus and own and own not in {one.gpu_gres_type for one in others}:
        hint = f"gpus_per_node: {own}:{gpus}"
    diagnostics.problem(
        ("instance_type",),
        f"no feature tells {wanted.name} from the other nodes of queue {placement.partition}, so "
        "the job may get any of them",
        hint,
        warning=True,
    )
