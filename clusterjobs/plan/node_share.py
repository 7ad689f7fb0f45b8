"""GPUs, ranks and CPUs of a node: what a job, or a point of a pack, has of it.

It knows the spec and the node's type; it must not know partitions.
"""

from __future__ import annotations

from clusterjobs.cluster.facts import NodeType, Terms
from clusterjobs.counted import counted
from clusterjobs.diagnostics import Diagnostics
from clusterjobs.plan.packing import points_per_node
from clusterjobs.provenance import Provenance
from clusterjobs.spec.experiment import Experiment


def plan_gpus_per_node(
    wanted: int | None,
    node_type: NodeType,
    per_node: int,
    terms: Terms,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> int:
    if wanted is not None:
        return int(wanted)
    if node_type.gpus is not None:
        reason = f"all that {node_type.in_words} has"
        if per_node > 1:
            reason += f", divided among {per_node} points"
        share = node_type.gpus // per_node or min(1, node_type.gpus)
        return provenance.record("gpus_per_node", share, reason, terms.node_facts)
    what = f"the {terms.node_facts}{terms.node_facts_note} does not know {node_type.name}"
    if not node_type.name:
        what = f"the instance type of the queue's nodes ({node_type.placeholder}) was not filled in"
        what = what.replace(" ()", "")
    diagnostics.missing(
        "gpus_per_node",
        f"{what}, so its GPUs are unknown",
        f"add `gpus_per_node:` with the GPUs of one {node_type.name or 'node'}, 0 if it has none",
    )
    return 0


def refuse_gpus(
    wanted: int, nodes: int, node_type: NodeType, limit: int | None, diagnostics: Diagnostics
) -> None:
    has, total = node_type.gpus or 0, wanted * nodes
    if has == 0 and node_type.accelerator:
        ranks, device = node_type.accelerator_ranks, node_type.accelerator.partition(" ")[2]
        hint = f"remove it, and add ranks_per_node: {ranks}: Slurm counts no {device}"
        if node_type.neuron_cores:
            hint = f"remove it: a node with {node_type.accelerator} gets {ranks} ranks"
    elif has == 0:
        hint = "remove it: this instance type has no GPUs"
    elif total % has or (limit is not None and total // has > limit):
        hint = f"gpus_per_node: {has} at most"
    else:
        hint = f"nodes: {total // has} with gpus_per_node: {has} gives the same {total} GPUs"
    what = f"{wanted} is more than a {node_type.name} has ({has})"
    diagnostics.problem(("gpus_per_node",), what, hint)


def plan_ranks_per_node(
    wanted: int | None,
    gpus: int,
    node_type: NodeType,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> int:
    if wanted is None and not gpus and node_type.neuron_cores:
        ranks, cores = node_type.accelerator_ranks, node_type.neuron_cores
        reason = f"one rank per NeuronCore of {node_type.accelerator}"
        if cores > ranks:
            reason = f"Neuron makes {ranks} logical cores of {cores}: one rank for each"
        source = "AWS Neuron: logical NeuronCore configuration"
        return provenance.record("ranks_per_node", ranks, reason, source)
    if wanted is None:
        reason = "one rank per GPU" if gpus else "no GPUs: one rank per node"
        return provenance.record("ranks_per_node", gpus or 1, reason)
    if gpus and wanted > gpus:
        diagnostics.problem(
            ("ranks_per_node",),
            f"{wanted} ranks would share {counted(gpus, 'GPU')}",
            "remove it: there is one rank per GPU",
        )
    return wanted


def plan_cpus_per_task(
    experiment: Experiment,
    node_type: NodeType,
    gpus: int | None,
    ntasks: int,
    diagnostics: Diagnostics,
    provenance: Provenance,
) -> int | None:
    """From the spec, else from the whole node, or on a shared node from its share of GPUs."""
    wanted, share = experiment.cpus_per_task, node_type.cpus
    if share is None:
        return wanted
    tasks, whose = counted(ntasks, "task"), counted(share, "CPU")
    if wanted is not None:
        if wanted * ntasks > share:
            diagnostics.problem(
                ("cpus_per_task",),
                f"{tasks} x {counted(wanted, 'CPU')} is more than the node's {share}",
                f"cpus_per_task: {share // ntasks} at most",
            )
        return wanted
    if gpus is not None and node_type.gpus:
        share = share * gpus // node_type.gpus
        whose = f"share of {gpus} of {counted(node_type.gpus, 'GPU')} in {whose}: {share}"
    if ntasks > share:
        _report_too_many_tasks(experiment, ntasks, share, diagnostics)
    return provenance.record("cpus_per_task", max(1, share // ntasks), f"{whose} / {tasks}")


def _report_too_many_tasks(
    experiment: Experiment, ntasks: int, cpus: int, diagnostics: Diagnostics
) -> None:
    points = points_per_node(experiment)
    path: tuple[str, ...] = ("ranks_per_node",) if experiment.ranks_per_node else ("nodes",)
    hint = f"ranks_per_node: {cpus // points} at most"
    what = f"{counted(ntasks, 'task')} on a node of {counted(cpus, 'CPU')}"
    if points > 1:
        path, what = ("sweep", "per_node"), f"{counted(points, 'point')} together: {what}"
        most = cpus // (ntasks // points)
        hint = f"per_node: {most} at most" if most > 1 else "remove it"
    diagnostics.problem(path, what, hint)
