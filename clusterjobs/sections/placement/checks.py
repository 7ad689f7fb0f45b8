"""Warnings about nodes: GPUs and networks that the job leaves unused, CPUs that ranks share."""

from __future__ import annotations

import re
from collections.abc import Mapping

from clusterjobs.errors import counted
from clusterjobs.sections.context import Context
from clusterjobs.sections.environment.fabrics import fabric_of
from clusterjobs.sections.placement.gpu_requests import gpu_request
from clusterjobs.spec.field_types import gpu_type
from clusterjobs.spec.keys.environment import EnvValue, text_of
from clusterjobs.text import show

# Commands that start a process for each GPU of their node.
_STARTERS = re.compile(
    r"(?:^|[\s/;&|(])(?:accelerate\s+launch|torchrun|deepspeed|composer|colossalai\s+run"
    r"|-m\s*(?:torch\.distributed\.(?:run|launch)|accelerate\.commands\.launch))(?:\s|$)"
)


def check_use_of_nodes(context: Context) -> None:
    """Warn about idle GPUs, shared CPUs, a slow network and nodes of another type."""
    spec = context.spec
    starts_ranks = spec.command is not None and _STARTERS.search(" ".join(map(show, spec.command)))
    has_launcher = starts_ranks and context.placement.shape.ranks_per_node == 1
    if spec.gpus_per_node != 0 and not has_launcher:  # 0: on CPUs, knowingly
        _check_idle_gpus(context)
    _check_idle_accelerators(context)
    _check_shared_cpus(context)
    _check_network(context)
    _check_node_type(context)


def _check_idle_gpus(context: Context) -> None:
    key = "ranks_per_node" if context.spec.gpus_per_node is None else "gpus_per_node"
    placement = context.placement
    has, shape = placement.node_type.gpus, placement.shape
    used = min(shape.ranks_per_node, shape.gpus_per_node) * placement.per_node
    if context.framework.one_rank_uses_all_gpus and shape.ranks_per_node == 1:
        used = shape.gpus_per_node * placement.per_node
    if has and placement.exclusive and used < has:
        context.problem(
            (key,),
            f"idle GPUs on every node, which you pay for: {has - used} of {has}",
            f"{key}: {has} uses them all; a rank may use several by itself",
            warning=True,
        )


def _check_idle_accelerators(context: Context) -> None:
    """Of devices that Slurm does not count, so that one rank a node is derived."""
    node_type, gpus = context.placement.node_type, context.placement.shape.gpus_per_node
    has_ranks = node_type.accelerator_ranks > 1 and not node_type.neuron_cores
    if context.spec.ranks_per_node is None and not gpus and has_ranks:
        context.problem(
            ("ranks_per_node",),
            f"one rank per node, where a {node_type.name} has {node_type.accelerator}",
            f"add `ranks_per_node: {node_type.accelerator_ranks}`, which uses them all; or 1, if "
            "your program starts its own",
            warning=True,
        )


def _check_shared_cpus(context: Context) -> None:
    key = "cpus_per_task" if context.spec.cpus_per_task else "ranks_per_node"
    placement = context.placement
    ranks, cpus = placement.shape.ranks_per_node, placement.cpus
    if placement.shares_cpus and cpus is not None:
        context.problem(
            (key,),
            f"{ranks} ranks share {counted(cpus, 'CPU')}, all that the job has of a node",
            "a CPU for each rank at least, and some more for loaders of data",
            warning=True,
        )


def _check_network(context: Context) -> None:
    """Warn about GPU nodes that do not use their fast network."""
    placement = context.placement
    node_type, nodes = placement.node_type, placement.all_nodes
    fabric = node_type.fabric
    if nodes > 1 and node_type.gpus and fabric and placement.fabric != fabric:
        context.problem(
            ("nodes",),
            f"queue {placement.partition} has no {fabric_of(fabric).title or fabric}: {nodes} "
            f"{node_type.name} would use TCP",
            context.facts.terms.enable_fabric,
            warning=True,
        )


def _check_node_type(context: Context) -> None:
    """Warn if nothing in the job selects its node type, where the partition has others."""
    spec, placement = context.spec, context.placement
    wanted = placement.node_type
    groups = context.facts.partition(placement.partition).node_groups
    others = [one.node_type for one in groups if one.node_type.name != wanted.name]
    request = gpu_request(spec.sbatch)
    by_type = gpu_type(spec.gpus_per_node) or (request and request.type)
    selected = placement.constraint or "constraint" in spec.sbatch or by_type
    if not others or selected:
        return
    own, gpus = wanted.gpu_gres_type, placement.shape.gpus_per_node
    hint = (
        f"add a feature to {wanted.name} in the cluster's description, or sbatch: {{constraint:}}"
    )
    if gpus and own and own not in {one.gpu_gres_type for one in others}:
        hint = f"gpus_per_node: {own}:{gpus}"
    context.problem(
        ("instance_type",),
        f"no feature tells {wanted.name} from the other nodes of queue {placement.partition}, so "
        "the job may get any of them",
        hint,
        warning=True,
    )


# ------------------------------------------------------------------ neuron
# Whether a job can use the NeuronCores of its nodes (Trainium, Inferentia2).
# Source: AWS Neuron documentation; torch-neuronx, which reads the ranks only if torchrun sets
# them.


def check_neuron(context: Context) -> None:
    """Report what would leave NeuronCores unused, or give them to two jobs."""
    spec, placement = context.spec, context.placement
    if not placement.node_type.neuron_cores:
        return
    _check_program(context)
    _check_sharing(context)
    _check_neuron_network(context)
    _check_logical_cores(context, spec.env, spec.ranks_per_node)
    if spec.preflight and spec.preflight.bandwidth_percent:
        context.problem(
            ("preflight", "bandwidth_percent"),
            "the all-reduce of the preflight does not use NeuronCores",
            "remove it; AWS Neuron's nccom-test measures their network",
        )


def _check_program(context: Context) -> None:
    framework = context.framework
    device = context.placement.node_type.accelerator.partition(" ")[2]
    if not framework.neuron_launchers:
        context.problem(
            ("framework",),
            f"{framework.name} is not supported on {device}",
            "framework: torchrun, for a script with torch-neuronx; or framework: command",
        )
    elif context.launcher.name not in framework.neuron_launchers:
        context.problem(
            ("launcher",),
            "torch-neuronx ignores RANK unless torchrun has set it: started by "
            f"{context.launcher.name}, the ranks would not connect to each other",
            f"launcher: {framework.neuron_launchers[0]}",
        )


def _check_sharing(context: Context) -> None:
    """They are no GRES of Slurm: every job on a node sees all of them."""
    if context.placement.per_node > 1:
        what, hint = "the points on a node would take the same NeuronCores", "remove it"
        context.problem(("sweep", "per_node"), f"{what}: Slurm does not divide them", hint)
    elif not context.placement.exclusive:
        what, hint = "jobs that share a node would take the same NeuronCores", "remove it"
        context.problem(("sbatch", "exclusive"), f"{what}: Slurm does not divide them", hint)


def _check_neuron_network(context: Context) -> None:
    placement = context.placement
    node_type, nodes = placement.node_type, placement.shape.nodes
    if nodes > 1 and placement.fabric != "efa":
        context.problem(
            ("nodes",),
            f"Neuron's collectives need EFA between nodes: queue {placement.partition} has none",
            context.facts.terms.enable_fabric
            if node_type.fabric == "efa"
            else f"nodes: 1, or a larger type: a {node_type.name} has no EFA",
            warning=True,
        )


def _check_logical_cores(
    context: Context, env: Mapping[str, EnvValue], ranks_per_node: int | None
) -> None:
    node_type = context.placement.node_type
    default = str(node_type.neuron_cores // node_type.accelerator_ranks)
    wanted = show(text_of(env.get("NEURON_LOGICAL_NC_CONFIG", default)))
    if wanted == default:
        return
    key, device = ("env", "NEURON_LOGICAL_NC_CONFIG"), node_type.accelerator.partition(" ")[2]
    if wanted != "1":
        known = "1" if default == "1" else f"1 and {default}"
        what = f"{wanted} cores in a logical core are not supported on {device}, only {known}"
        context.problem(key, what, f"remove it: {default} is the default")
    elif ranks_per_node is None:
        cores = node_type.neuron_cores
        what = f"each of the {cores} NeuronCores is a device of its own, and there are "
        what += f"{context.placement.shape.ranks_per_node} ranks"
        context.problem(key, what, f"add `ranks_per_node: {cores}`, or remove it", warning=True)
