"""GPUs, ranks and CPUs of a node: what a job, or a point of a pack, has of it."""

from clusterjobs.clusters.facts import NodeType, Partition
from clusterjobs.errors import counted
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.launchers import LAUNCHERS
from clusterjobs.sections.context import Context
from clusterjobs.sections.placement.gpu_requests import gpus_wanted
from clusterjobs.spec.experiment import Experiment

# ------------------------------------------------------------------ packing
# Packing: `sweep: {per_node: 8}` runs several points of a sweep side by side on one node.


_PER_NODE = ("sweep", "per_node")
_PORTS = 20_000  # number of candidates for MASTER_PORT


def points_per_node(spec: Experiment) -> int:
    """How many points share a node; 1 without packing."""
    return (spec.sweep and spec.sweep.per_node) or 1


def port_stride(per_node: int) -> int:
    """Distance between the first candidate ports (MASTER_PORT) of two points on a node."""
    return _PORTS // per_node


def tasks_of_points(count: int, per_node: int) -> list[tuple[int, int]]:
    """The task and the slot of each of `count` points, in their order: (0, 0), (0, 1) ..."""
    return [divmod(number, per_node) for number in range(count)]


def check_packing(context: Context) -> None:
    """Refuse settings that points on one node cannot share."""
    spec, placement = context.spec, context.placement
    if placement.per_node == 1:
        return
    _check_gpus(context)
    if spec.nodes > 1:
        what = f"{counted(placement.per_node, 'point')} on each node, but a point has "
        what += f"{spec.nodes} nodes"
        context.problem(("nodes",), what, "nodes: 1, or remove sweep.per_node")
    if not context.launcher.shares_nodes:
        known = FRAMEWORKS[spec.framework].launchers if spec.framework in FRAMEWORKS else ()
        others = [name for name in known if LAUNCHERS[name].shares_nodes]
        instead = f"launcher: {' or '.join(others)}, or " if others else ""
        context.problem(
            ("launcher",) if spec.launcher else _PER_NODE,
            f"{context.launcher.name} cannot be limited to a point's share of the node",
            f"{instead}remove sweep.per_node",
        )
    if spec.sweep and not spec.sweep.array:
        context.problem(
            _PER_NODE,
            "array: false gives each point a job of its own, and per_node puts several into one",
            "remove one of them",
        )
    if spec.job_arguments:
        context.problem(
            ("job_arguments",),
            "with sweep.per_node, the script's own argument says which point it runs",
            "remove it, or sweep.per_node; a parameter is for all points: NAME=value sbatch job.sh",
        )
    _check_sections(context)


def _check_gpus(context: Context) -> None:
    placement = context.placement
    node_type, points = placement.node_type, placement.per_node
    has, gpus = node_type.gpus, placement.shape.gpus_per_node
    if not has:
        return
    name = f"a {node_type.name} has ({has})"
    if context.spec.gpus_per_node is None and points > has:
        context.problem(
            _PER_NODE,
            f"{points} points need a GPU each, which is more than {name}",
            f"per_node: {has} at most; gpus_per_node: 0 if the points need no GPU",
        )
    elif gpus <= has < points * gpus:
        most = has // gpus
        fewer = f"gpus_per_node: {has // points}" if points <= has else ""
        context.problem(
            _PER_NODE,
            f"{points} points x {counted(gpus, 'GPU')} are more than {name}",
            " or ".join(filter(None, [f"per_node: {most} at most", fewer])),
        )


def _check_sections(context: Context) -> None:
    """Refuse sections that act on the whole node."""
    spec = context.spec
    container, restarts = spec.software.container, spec.restarts
    if container and container.runtime == "docker":
        context.problem(
            ("software", "container", "runtime"),
            "docker cannot be used with sweep.per_node: "
            "its containers get all GPUs and CPUs of the node",
            "runtime: pyxis or apptainer, or remove sweep.per_node",
        )
    if spec.preflight:
        context.problem(
            ("preflight",),
            "the preflight checks whole nodes, but other points may be running on them",
            "preflight: false, or remove sweep.per_node",
        )
    if restarts and restarts.stall_seconds:
        context.problem(
            ("restarts", "stall_seconds"),
            "stalled ranks cannot be detected when several points share a job",
            "remove it, or sweep.per_node",
        )


def plan_gpus_per_node(context: Context, node_type: NodeType) -> int:
    wanted, per_node = gpus_wanted(context.spec), points_per_node(context.spec)
    terms = context.facts.terms
    if wanted is not None:
        return int(wanted)
    if node_type.gpus is not None:
        reason = f"all that {node_type.in_words} has"
        if per_node > 1:
            reason += f", divided among {per_node} points"
        share = node_type.gpus // per_node or min(1, node_type.gpus)
        return context.record("gpus_per_node", share, reason, terms.node_facts)
    what = f"the {terms.node_facts}{terms.node_facts_note} does not know {node_type.name}"
    if not node_type.name:
        what = f"the instance type of the queue's nodes ({node_type.placeholder}) was not filled in"
        what = what.replace(" ()", "")
    context.diagnostics.missing(
        "gpus_per_node",
        f"{what}, so its GPUs are unknown",
        f"add `gpus_per_node:` with the GPUs of one {node_type.name or 'node'}, 0 if it has none",
    )
    return 0


def refuse_gpus(
    context: Context, wanted: int, nodes: int, node_type: NodeType, limit: int | None
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
    context.problem(("gpus_per_node",), what, hint)


def plan_ranks_per_node(context: Context, gpus: int, node_type: NodeType) -> int:
    wanted = context.spec.ranks_per_node
    if wanted is None and not gpus and node_type.neuron_cores:
        ranks, cores = node_type.accelerator_ranks, node_type.neuron_cores
        reason = f"one rank per NeuronCore of {node_type.accelerator}"
        if cores > ranks:
            reason = f"Neuron makes {ranks} logical cores of {cores}: one rank for each"
        source = "AWS Neuron: logical NeuronCore configuration"
        return context.record("ranks_per_node", ranks, reason, source)
    if wanted is None:
        reason = "one rank per GPU" if gpus else "no GPUs: one rank per node"
        return context.record("ranks_per_node", gpus or 1, reason)
    if gpus and wanted > gpus:
        context.problem(
            ("ranks_per_node",),
            f"{wanted} ranks would share {counted(gpus, 'GPU')}",
            "remove it: there is one rank per GPU",
        )
    return wanted


def plan_cpus_per_task(
    context: Context, partition: Partition, node_type: NodeType, gpus: int | None, ntasks: int
) -> int | None:
    """The CPUs of a task: as the spec says, else the node's, or on a shared node by its GPUs.

    The site may say how many CPUs belong to a GPU of a shared node: DefCpuPerGPU.
    """
    wanted, share = context.spec.cpus_per_task, node_type.cpus
    of_gpus = (gpus or 0) * (partition.default_cpus_per_gpu or 0)
    if wanted is None and of_gpus >= ntasks and (share is None or of_gpus <= share):
        each = f"DefCpuPerGPU={partition.default_cpus_per_gpu} of queue {partition.name}"
        reason = f"{counted(gpus or 0, 'GPU')} with {each} / {counted(ntasks, 'task')}"
        return context.record("cpus_per_task", of_gpus // ntasks, reason)
    if share is None:
        return wanted
    tasks, whose = counted(ntasks, "task"), counted(share, "CPU")
    if wanted is not None:
        if wanted * ntasks > share:
            context.problem(
                ("cpus_per_task",),
                f"{tasks} x {counted(wanted, 'CPU')} is more than the node's {share}",
                f"cpus_per_task: {share // ntasks} at most",
            )
        return wanted
    if gpus is not None and node_type.gpus:
        share = share * gpus // node_type.gpus
        whose = f"share of {gpus} of {counted(node_type.gpus, 'GPU')} in {whose}: {share}"
    if ntasks > share:
        _report_too_many_tasks(context, ntasks, share)
    return context.record("cpus_per_task", max(1, share // ntasks), f"{whose} / {tasks}")


def _report_too_many_tasks(context: Context, ntasks: int, cpus: int) -> None:
    points = points_per_node(context.spec)
    path: tuple[str, ...] = ("ranks_per_node",) if context.spec.ranks_per_node else ("nodes",)
    hint = f"ranks_per_node: {cpus // points} at most"
    what = f"{counted(ntasks, 'task')} on a node of {counted(cpus, 'CPU')}"
    if points > 1:
        path, what = ("sweep", "per_node"), f"{counted(points, 'point')} together: {what}"
        most = cpus // (ntasks // points)
        hint = f"per_node: {most} at most" if most > 1 else "remove it"
    context.problem(path, what, hint)
