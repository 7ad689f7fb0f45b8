"""What foresight needs of a planned job: model, layout, GPU, network, nodes and length.

It joins the plan, the cluster's facts and the catalogue; it must not know how things are shown.
"""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.cluster.facts import ClusterFacts, NodeType
from clusterjobs.commands.foresight.length import Length, length_of, save_steps
from clusterjobs.commands.own_configs import OwnConfigs
from clusterjobs.errors import Problem
from clusterjobs.foresight.gpus import find_gpu
from clusterjobs.foresight.records import Gpu, Layout, ModelShape, Network
from clusterjobs.frameworks.base import Foreseen
from clusterjobs.plan.foresight import NO_SEQUENCE, UNKNOWN_MODEL, foreseen_of, model_and_layout
from clusterjobs.plan.placement import Placement
from clusterjobs.plan.plan import Plan
from clusterjobs.plan.storage import is_below
from clusterjobs.slurm_time import seconds_of
from clusterjobs.spec.load import Spec
from clusterjobs.spec.references import show

HINTS = {
    UNKNOWN_MODEL: "add model: {layers, hidden, heads, sequence, vocab}",
    NO_SEQUENCE: "add sequence to model, the tokens of one sample",
}
CPU = "CPU of "  # and a node type, in place of the name of a GPU


class Nodes(NamedTuple):
    """The nodes that a job is billed for, and what decides their price. "" is unknown.

    `number`: a fraction for points of a sweep that share a node.
    """

    number: float
    node_type: str
    region: str
    cluster: str
    purchase: str


class ForeseenJob(NamedTuple):
    """A job in the terms of foresight. `disk_rate`: bytes/s of the checkpoints' file system."""

    model: ModelShape
    layout: Layout
    gpu: Gpu
    network: Network
    nodes: Nodes
    length: Length | None
    save_steps: int | None
    time_limit: int | None
    disk_rate: float | None = None
    software: str = ""


class Unknown(NamedTuple):
    """Why nothing can be predicted, and what would help. "" if there is nothing to say.

    `problems`: of the files that could not be read.
    """

    why: str
    hint: str = ""
    problems: tuple[Problem, ...] = ()


def foreseen_job(
    plan: Plan,
    spec: Spec,
    facts: ClusterFacts,
    configs: OwnConfigs | None,
    with_cpus: bool = False,
) -> ForeseenJob | Unknown:
    """The job, or what is missing. `with_cpus`: a rank without a GPU counts as one."""
    texts = configs.texts(spec) if configs else {}
    described = model_and_layout(plan, spec, texts)
    if isinstance(described, str):
        return Unknown(described, HINTS.get(described.partition(":")[0], ""))
    model, layout = described
    placement = plan.placement
    gpu = gpu_of(placement.node_type) or (_cpus_of(placement) if with_cpus else None)
    if gpu is None:
        return _unknown_gpu(placement.node_type)
    limit = plan.job.time_limit
    said = foreseen_of(spec, texts)[1]
    return ForeseenJob(
        model,
        layout,
        gpu,
        Network(placement.node_type.network_gbps or 0.0, placement.fabric),
        nodes_of(plan, facts),
        length_of(spec.experiment) or _length_in(said),
        save_steps(spec.experiment) or said.save_steps,
        seconds_of(limit) if limit else None,
        disk_rate=_disk_rate(plan, facts),
        software=show(spec.experiment.framework),
    )


def _length_in(said: Foreseen) -> Length | None:
    """The length that the framework's own config files say."""
    return Length(None, None, said.steps, "the configs") if said.steps else None


def _unknown_gpu(kind: NodeType) -> Unknown:
    hint = "name a node type with GPUs of NVIDIA: clusterjobs clusters list"
    if not kind.gpus:
        return Unknown(f"{kind.name} has no GPU: nothing is predicted for it", hint)
    if not kind.gpu_model:
        return Unknown(f"the GPUs of {kind.name} are unknown", "describe them: gpu_model: A100")
    memory = f" with {kind.gpu_memory_gib:.3g} GiB" if kind.gpu_memory_gib else ""
    gpus = f"{kind.gpu_model}{memory}, the GPUs of {kind.name}"
    return Unknown(f"no numbers are known for {gpus}", hint)


def _disk_rate(plan: Plan, facts: ClusterFacts) -> float | None:
    """Bytes/s of the file system with the checkpoints; of nested mounts the innermost counts."""
    folder = plan.checkpoints.path
    if not folder:
        return None
    mounts = [one for one in facts.mounts if is_below(folder, one.path)]
    inner = max(mounts, key=lambda one: len(one.path), default=None)
    return inner.throughput_mbs * 1e6 if inner and inner.throughput_mbs else None


def _cpus_of(placement: Placement) -> Gpu | None:
    """Stands for the CPUs of one rank where nodes have no GPU: for measurements alone.

    Its numbers are only compared with themselves.
    """
    kind, ranks = placement.node_type, placement.shape.ranks_per_node
    if kind.gpus or kind.accelerator_ranks:
        return None
    memory = (kind.memory_mib or 0) / 1024 / ranks or 1.0
    return Gpu(CPU + kind.name, "", 1e12, None, 50e9, 10e9, memory)


def gpu_of(node_type: NodeType) -> Gpu | None:
    """The GPU of a node type; None without one, or if its numbers are unknown."""
    if not node_type.gpus or not node_type.gpu_model:
        return None
    return find_gpu(node_type.gpu_model, node_type.gpu_memory_gib)


def nodes_of(plan: Plan, facts: ClusterFacts) -> Nodes:
    """The nodes of the plan; how they are bought is unknown if their groups differ in it."""
    placement = plan.placement
    groups = facts.partition(placement.partition).node_groups
    ways = {one.purchase for one in groups if one.node_type.name == placement.node_type.name}
    purchase = ways.pop() if len(ways) == 1 else ""
    number = placement.all_nodes / placement.per_node
    return Nodes(number, placement.node_type.name, facts.region, facts.name, purchase)
