"""Whether a job can use the NeuronCores of its nodes (Trainium, Inferentia2).

Source: AWS Neuron documentation; torch-neuronx, which reads the ranks only if torchrun sets them.
"""

from __future__ import annotations

from collections.abc import Mapping

from clusterjobs.sections.context import Context
from clusterjobs.spec.keys.environment import EnvValue, text_of
from clusterjobs.text import show


def check_neuron(context: Context) -> None:
    """Report what would leave NeuronCores unused, or give them to two jobs."""
    spec, placement = context.spec, context.placement
    if not placement.node_type.neuron_cores:
        return
    _check_program(context)
    _check_sharing(context)
    _check_network(context)
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


def _check_network(context: Context) -> None:
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
