"""How the nodes of a job are divided: the first ones train, the others have roles.

It knows the numbers of nodes; it must not know what runs on them.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.counted import counted
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment


def nodes_of_roles(experiment: Experiment) -> int:
    """How many nodes do not train."""
    return sum(one.nodes for one in experiment.roles.values())


def first_nodes(experiment: Experiment) -> Iterator[tuple[str, int]]:
    """Each role with the number of its first node, from 0 among the job's nodes."""
    first = experiment.nodes - nodes_of_roles(experiment)
    for name, role in experiment.roles.items():
        yield name, first
        first += role.nodes


def plan_training_nodes(
    experiment: Experiment, diagnostics: Diagnostics, provenance: Provenance
) -> int:
    """The nodes that train, at least one: with too few, planning continues after the problem."""
    taken = nodes_of_roles(experiment)
    left = experiment.nodes - taken
    if left < 1:
        have = counted(experiment.nodes, "node")
        diagnostics.problem(
            ("roles",),
            f"the roles take {counted(taken, 'node')} of a job of {have}: none is left to train",
            f"nodes: {taken + 1} at least",
        )
    elif taken:
        reason = f"{counted(experiment.nodes, 'node')} without those of {_listed(experiment)}"
        provenance.record("training_nodes", left, reason)
    return max(1, left)


def _listed(experiment: Experiment) -> str:
    return ", ".join(f"{name} ({one.nodes})" for name, one in experiment.roles.items())
