"""Where the job runs: partition, node type, nodes, GPUs, tasks and CPUs."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from clusterjobs.clusters.facts import NodeGroup, Partition
from clusterjobs.errors import counted
from clusterjobs.frameworks.base import Shape
from clusterjobs.script import shell
from clusterjobs.script.shell import ShellText
from clusterjobs.sections.context import Context, Rendering
from clusterjobs.sections.fabrics import fabric_of
from clusterjobs.sections.placement.gpu_requests import gpu_request, requests_gpus
from clusterjobs.sections.placement.node_share import (
    plan_cpus_per_task,
    plan_gpus_per_node,
    plan_ranks_per_node,
    points_per_node,
    port_stride,
    refuse_gpus,
)
from clusterjobs.sections.placement.nodes import (
    constraint_of,
    find_groups,
    find_partition,
    node_limit,
)
from clusterjobs.sections.plan import Placement
from clusterjobs.slurm.options import seconds_of, slurm_time
from clusterjobs.spec.experiment import Experiment
from clusterjobs.spec.field_types import gpu_type
from clusterjobs.spec.keys.environment import EnvValue, text_of
from clusterjobs.text import Value, show

# ------------------------------------------------------------------ role nodes
# How the nodes of a job are divided: the first ones train, the others have roles.


def nodes_of_roles(spec: Experiment) -> int:
    """How many nodes do not train."""
    return sum(one.nodes for one in spec.roles.values())


def first_nodes(spec: Experiment) -> Iterator[tuple[str, int]]:
    """Each role with the number of its first node, from 0 among the job's nodes."""
    first = spec.nodes - nodes_of_roles(spec)
    for name, role in spec.roles.items():
        yield name, first
        first += role.nodes


def plan_training_nodes(context: Context) -> int:
    """The nodes that train, at least one: with too few, planning continues after the problem."""
    spec = context.spec
    taken = nodes_of_roles(spec)
    left = spec.nodes - taken
    if left < 1:
        have = counted(spec.nodes, "node")
        context.problem(
            ("roles",),
            f"the roles take {counted(taken, 'node')} of a job of {have}: none is left to train",
            f"nodes: {taken + 1} at least",
        )
    elif taken:
        roles = ", ".join(f"{name} ({one.nodes})" for name, one in spec.roles.items())
        reason = f"{counted(spec.nodes, 'node')} without those of {roles}"
        context.record("training_nodes", left, reason)
    return max(1, left)


def plan(context: Context) -> Placement:
    """Raises InputError if there are no nodes for the job."""
    spec, launcher = context.spec, context.launcher
    partition = find_partition(context)
    groups = find_groups(context, partition)
    _check_nodes(context, partition.name, groups)
    _check_time_limit(context, partition)
    shape = _shape(context, groups)
    ntasks = shape.ranks_per_node if launcher.task_per_rank else 1
    context.record("ntasks_per_node", ntasks, launcher.reason)
    node_type, fabrics = groups[0].node_type, [group.fabric for group in groups if group.fabric]
    own, most = spec.sbatch.get("exclusive"), node_type.max_cpus
    exclusive = own is not False if most is None else bool(own)
    _check_exclusive(context, exclusive, partition, most)
    per_node = points_per_node(spec)
    share = None if exclusive else per_node * shape.gpus_per_node or None
    _check_memory(context, groups, shape.gpus_per_node * per_node)
    return Placement(
        shape,
        partition.name,
        node_type,
        "efa" if "efa" in fabrics else next(iter(fabrics), ""),
        constraint_of(partition, groups),
        exclusive,
        ntasks,
        plan_cpus_per_task(context, partition, node_type, share, ntasks * per_node),
        per_node,
        nodes_of_roles(spec),
        context.facts.master_addr_suffix,
    )


def _shape(context: Context, groups: tuple[NodeGroup, ...]) -> Shape:
    """The numbers of nodes, ranks and GPUs."""
    nodes, node_type = plan_training_nodes(context), groups[0].node_type
    gpus = plan_gpus_per_node(context, node_type)
    if node_type.gpus is not None and gpus > node_type.gpus:
        refuse_gpus(context, gpus, nodes, node_type, node_limit(groups))
    ranks = plan_ranks_per_node(context, gpus, node_type)
    shape = Shape(nodes, ranks, gpus)
    reason = f"{counted(nodes, 'node')} x {counted(ranks, 'rank')}"
    context.record("world_size", shape.world_size, reason)
    return shape


def _check_nodes(context: Context, partition: str, groups: tuple[NodeGroup, ...]) -> None:
    nodes, limit = context.spec.nodes, node_limit(groups)
    if limit is not None and nodes > limit:
        word = groups[0].limit or context.facts.terms.max_nodes
        counts = ", ".join(f"{one.name}: {one.limit or word} {one.max_nodes}" for one in groups)
        context.problem(
            ("nodes",),
            f"{nodes} is more than queue {partition} can have ({counts})",
            f"nodes: {limit} at most, or ask the cluster's admin to raise {word}",
        )


def _check_time_limit(context: Context, partition: Partition) -> None:
    """Refuse a job that is longer than the partition's limit.

    By default Slurm accepts it, and it waits forever (EnforcePartLimits).
    """
    time_limit, longest = context.spec.time_limit, partition.max_time
    if time_limit is None or longest is None:
        return
    seconds = seconds_of(time_limit)
    if seconds is None or seconds > longest:
        most = slurm_time(longest)
        context.problem(
            ("time_limit",),
            f"{time_limit} is longer than queue {partition.name} allows (MaxTime {most})",
            f"time_limit: {most} at most, or ask the cluster's admin to raise MaxTime",
        )


def _check_exclusive(
    context: Context, exclusive: bool, partition: Partition, most: int | None
) -> None:
    if exclusive and most is not None:
        context.problem(
            ("sbatch", "exclusive"),
            f"Slurm refuses whole nodes in queue {partition.name}: a job gets {most} CPUs of each "
            "at most (MaxCPUsPerNode)",
            "remove it, or choose another queue",
        )
    if not exclusive and partition.exclusive and "exclusive" in context.spec.sbatch:
        word = context.facts.terms.exclusive
        context.problem(
            ("sbatch", "exclusive"),
            f"queue {partition.name} always allocates whole nodes ({word})",
            "remove it, or choose a queue that shares its nodes",
            warning=True,
        )


_MEMORY = re.compile(r"([0-9]{1,15})([KMGT]?)B?", re.IGNORECASE)  # sbatch(1), --mem
_MIB = {"K": 1 / 1024, "": 1, "M": 1, "G": 1024, "T": 1024**2}


def _check_memory(context: Context, groups: tuple[NodeGroup, ...], gpus: int) -> None:
    """A job that asks for more memory than a node has would never start."""
    sizes = [group.node_type.memory_mib for group in groups]
    for name, count, each in (("mem", 1, ""), ("mem-per-gpu", gpus, f" for each of {gpus} GPUs")):
        value = context.spec.sbatch.get(name)
        asked = _MEMORY.fullmatch(value) if isinstance(value, str) else None
        has = max((one for one in sizes if one is not None), default=0)
        if asked and None not in sizes and int(asked[1]) * _MIB[asked[2].upper()] * count > has:
            context.problem(
                ("sbatch", name),
                f"{value}{each} is more than a node has ({has:,} MiB, as Slurm counts it)",
                f"sbatch: {{{name}: {int(has / max(count, 1))}M}} at most, or remove it",
            )


# ------------------------------------------------------------------ text
# Numbers of nodes and ranks.


def render(rendering: Rendering) -> dict[str, Any]:
    plan = rendering.plan
    shape, per_node = plan.placement.shape, plan.placement.per_node
    has_tasks = rendering.table is not None and rendering.table.is_array
    return {
        "is_one_job": not has_tasks and all(one.name != "array" for one in plan.job.directives),
        "nodes": shape.nodes,
        "all_nodes": plan.placement.all_nodes,
        "nodes_in_words": ShellText(counted(plan.placement.all_nodes, "node")),
        "gpus_per_node": shape.gpus_per_node,
        "has_gpus_unrequested": shape.gpus_per_node > 0 and not requests_gpus(plan.job.directives),
        "ranks_per_node": shape.ranks_per_node,
        "world_size": shape.world_size,
        "is_packed": per_node > 1,
        "last_slot": per_node - 1,
        "has_address_suffix": bool(plan.placement.address_suffix),
        "address_suffix": shell.quote(plan.placement.address_suffix),
        "port_stride": port_stride(per_node),
    }


# ------------------------------------------------------------------ checks
# Whether the job uses the nodes that it gets, and its NeuronCores.


def _starts_ranks(command: tuple[Value, ...] | None) -> bool:
    if command is None:
        return False
    from clusterjobs.frameworks.command import starter_of  # the other frameworks have no command

    return starter_of(command) is not None


def check_use_of_nodes(context: Context) -> None:
    """Warn about idle GPUs, shared CPUs, a slow network and nodes of another type."""
    spec = context.spec
    has_launcher = _starts_ranks(spec.command) and context.placement.shape.ranks_per_node == 1
    if spec.gpus_per_node != 0 and not has_launcher:  # 0: on CPUs, knowingly
        _check_idle_gpus(context)
    _check_idle_accelerators(context)
    _check_shared_cpus(context)
    _check_defaults(context)
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
        hint = f"{key}: {has} uses them all; a rank may use several by itself"
        if context.spec.sweep and shape.nodes == 1 and placement.per_node == 1 and used:
            hint = f"sweep: {{per_node: {has // used}}} runs {has // used} points side by side"
        context.problem(
            (key,),
            f"idle GPUs on every node, which you pay for: {has - used} of {has}",
            hint,
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


_OPTIONS_OF_MEMORY = {"mem", "mem-per-cpu", "mem-per-gpu", "exclusive"}


def _check_defaults(context: Context) -> None:
    """Warn of a time or a memory that the job gets because the spec asks for none."""
    spec, placement = context.spec, context.placement
    named = (one for one in context.facts.partitions if one.name == placement.partition)
    queue = next(named, None)
    if queue is None:  # its name in the cluster's config is not filled in
        return
    if spec.time_limit is None and "time" not in spec.sbatch and queue.default_time:
        limit = slurm_time(queue.default_time)
        context.problem(
            ("time_limit",),
            f"Slurm ends the job after {limit}: the DefaultTime of queue {queue.name}",
            f"time_limit: {limit}, or what the job needs",
            warning=True,
        )
    gpus = placement.shape.gpus_per_node * placement.per_node
    fitting = (one for one in queue.default_memory if gpus or one.each != "GPU")
    default, has = next(fitting, None), placement.node_type.memory_mib
    own = {name for name, value in spec.sbatch.items() if value}
    if placement.exclusive or default is None or has is None or own & _OPTIONS_OF_MEMORY:
        return
    cpus = (placement.cpus_per_task or 1) * placement.ntasks_per_node
    count = {"CPU": cpus, "GPU": gpus, "Node": 1}[default.each]
    gets, all_cpus = default.mib * count, placement.node_type.cpus
    of_gpus = gpus / placement.node_type.gpus if placement.node_type.gpus else 0
    share = max(of_gpus, cpus / all_cpus if all_cpus else 0)
    if gets * 2 < has * share:
        context.problem(
            ("sbatch", "mem"),
            f"without --mem, the job gets {gets:,} MiB of a node's {has:,} "
            f"(DefMemPer{default.each}={default.mib:,})",
            f"sbatch: {{mem: {int(has * min(share, 1))}M}} is the share of its GPUs and CPUs",
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
