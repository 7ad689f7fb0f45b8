"""Groups nodes that are alike into node types, with a name for each.

Nodes are of different types if their hardware, as a job can see it, is different. Features alone
make no type, or each rack would be one.
"""

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from clusterjobs.catalog import InstanceType, find_instance_type, gpu_model_of
from clusterjobs.importing.nodes import Node
from clusterjobs.importing.records import Gpus

# ------------------------------------------------------------------ facts of machine types
# What EC2 and Google Compute Engine say of a node whose machine type is known.
# Slurm does not know the model of a GPU, its memory, or the network.


_HYPERPOD = "ml."  # SageMaker's names of EC2's types: ml.p5.48xlarge


class MachineFacts(NamedTuple):
    """Facts of a machine type; None and "" are unknown. `source` names the type and who says it."""

    name: str
    source: str
    gpu_model: str = ""
    gpu_memory: float | None = None
    fabric: str = ""
    fabric_interfaces: int | None = None
    network_gbps: float | None = None
    local_disk_gb: int | None = None


def machine_facts(name: str) -> MachineFacts | None:
    """The facts of `p4d.24xlarge`, `ml.p5.48xlarge` or `a3-highgpu-8g`; None if it is unknown."""
    if found := find_instance_type(name.removeprefix(_HYPERPOD)):
        return _of_ec2(name, found)
    if row := _GOOGLE_ROWS.get(name):
        return MachineFacts(name, f"Google's data of {name}", *row)
    return None


def is_hyperpod(name: str) -> bool:
    """Whether SageMaker HyperPod names its instances so."""
    return name.startswith(_HYPERPOD)


def _of_ec2(name: str, found: InstanceType) -> MachineFacts:
    has_efa = bool(found.efa_interfaces)
    return MachineFacts(
        name=name,
        source=f"EC2's data of {found.name}",
        gpu_model=found.gpu_model if found.gpus else "",
        gpu_memory=round(found.gpu_memory_mib / 1024, 2) if found.gpus else None,
        fabric={None: "", 0: "ethernet"}.get(found.efa_interfaces, "efa"),
        fabric_interfaces=found.efa_interfaces if has_efa else None,
        network_gbps=found.network_gbps,
        local_disk_gb=found.nvme_gb or None,
    )


# cloud.google.com, "Networking and GPU machines", November 2026: the GPUs, the network for them,
# its interfaces beside the one of the host, and the peak of all. A3 Ultra and A4 are left out:
# their RDMA over Converged Ethernet is none of the fabrics that a description can name.
_A2 = ("A100", 40.0, "gvnic", None, None)
_A2_ULTRA = ("A100", 80.0, "gvnic", None, None)
_A3_SMALL = ("H100", 80.0, "gvnic", None, None)  # one interface: no GPUDirect
_GOOGLE_ROWS: dict[str, tuple[str, float, str, int | None, float | None]] = {
    **{f"a2-highgpu-{gpus}g": _A2 for gpus in (1, 2, 4)},
    **{f"a2-ultragpu-{gpus}g": _A2_ULTRA for gpus in (1, 2, 4)},
    **{f"a3-highgpu-{gpus}g": _A3_SMALL for gpus in (1, 2, 4)},
    "a2-highgpu-8g": ("A100", 40.0, "gvnic", None, 100.0),
    "a2-megagpu-16g": ("A100", 40.0, "gvnic", None, 100.0),
    "a2-ultragpu-8g": ("A100", 80.0, "gvnic", None, 100.0),
    "a3-highgpu-8g": ("H100", 80.0, "tcpx", 4, 1000.0),
    "a3-megagpu-8g": ("H100", 80.0, "tcpxo", 8, 1800.0),
}


# Nodes with the same hardware can differ a little in RealMemory, as slurmd has measured it.
_SAME_MEMORY = 1.03


@dataclass(frozen=True)
class NodeKind:
    """Nodes that are alike: the smallest of each number, and the features that all of them have.

    `gpus`: None where no text says whether there are some. `model` and `gpu_memory` with where they
    come from, "" and None if unknown. `lost_features`: those that only some of the nodes have.
    """

    name: str
    nodes: tuple[Node, ...]
    cpus: int | None
    reserved_cpus: int
    threads_per_core: int | None
    memory_mib: int | None
    gpus: tuple[Gpus, ...] | None
    features: tuple[str, ...]
    lost_features: tuple[str, ...]
    temporary_mb: int | None
    machine: MachineFacts | None
    model: str
    gpu_memory: float | None
    gpu_memory_source: str

    @property
    def gpu_type(self) -> str:
        return self.gpus[0].type if self.gpus else ""

    @property
    def hinted_model(self) -> str:
        """A GPU that a feature names, of nodes whose GPUs are no GRES."""
        models = (gpu_model_of(one) for one in self.features)
        return "" if self.gpus else next((model for model in models if model), "")

    @property
    def hinted_gpus(self) -> str:
        """What says that nodes without a GRES have GPUs: a feature, or a node's name; or ""."""
        if self.gpus:
            return ""
        if self.hinted_model:
            return f"a feature names {self.hinted_model}"
        if self.gpus is None:
            return ""
        named = (one.name for one in self.nodes if _GPU_NAME.search(one.name))
        return next((f"the node's name is {name}" for name in named), "")


# NVIDIA's DGX and HGX, and what sites call a node with GPUs; not a100, which may be a number.
_GPU_NAME = re.compile(r"(?<![a-z])(?:[dh]gx|gpu)(?![a-z])", re.IGNORECASE)


def node_kinds(nodes: Iterable[Node], partitions: Mapping[str, Sequence[str]]) -> list[NodeKind]:
    """The types of all nodes, with distinct names; `partitions`: the names of each one's nodes."""
    of_node: dict[str, list[str]] = {}
    for name, members in partitions.items():
        for member in members:
            of_node.setdefault(member, []).append(name)
    groups: dict[tuple[str, object], list[Node]] = {}
    for node in nodes:
        machine = _machine(node, of_node.get(node.name, ()))
        groups.setdefault((machine, _hardware(node)), []).append(node)
    kinds = [
        _kind(same, machine_facts(machine))
        for (machine, _), alike in groups.items()
        for same in _by_memory(alike)
    ]
    kinds.sort(key=lambda kind: (-sum(one.number for one in kind.gpus or ()), -len(kind.nodes)))
    return _named(kinds)


def _machine(node: Node, partitions: Sequence[str]) -> str:
    """EC2's or Google's type: of Slurm, a feature, or HyperPod's partition name; else ""."""
    names = (node.instance_type, *(node.features or ()), *partitions)
    return next((name for name in names if machine_facts(name)), "")


def _hardware(node: Node) -> tuple[object, ...]:
    memory, _ = _memory_in(node)
    hinted = "" if node.gpus else next(filter(None, map(gpu_model_of, node.features or ())), "")
    return (node.cpus, node.threads_per_core, node.gpus, node.model, hinted, memory)


def _by_memory(nodes: Sequence[Node]) -> list[list[Node]]:
    """Groups of about the same memory, in the order of their first nodes."""
    result: list[list[Node]] = []
    for node in sorted(nodes, key=lambda one: one.memory_mib or 0):
        first = result[-1][0].memory_mib if result else None
        if result and (node.memory_mib or 0) <= (first or 0) * _SAME_MEMORY:
            result[-1].append(node)
        else:
            result.append([node])
    order = {node.name: number for number, node in enumerate(nodes)}
    for group in result:
        group.sort(key=lambda one: order[one.name])
    return sorted(result, key=lambda group: order[group[0].name])


def _kind(nodes: list[Node], machine: MachineFacts | None) -> NodeKind:
    first = nodes[0]
    common = [one for one in first.features or () if all(one in (n.features or ()) for n in nodes)]
    every = dict.fromkeys(one for node in nodes for one in node.features or ())
    memory, source = _memory_in(first)
    model = (machine.gpu_model if machine else "") or _model(first)
    if machine and machine.gpu_memory is not None:
        memory, source = machine.gpu_memory, machine.source
    return NodeKind(
        name="",
        nodes=tuple(nodes),
        cpus=first.cpus,
        reserved_cpus=first.reserved_cpus,
        threads_per_core=None if is_of_parallelcluster(every) else first.threads_per_core,
        memory_mib=min((one.memory_mib for one in nodes if one.memory_mib), default=None),
        gpus=first.gpus,
        features=_in_order(common, machine),
        lost_features=tuple(one for one in every if one not in common),
        temporary_mb=_smallest(one.temporary_mb for one in nodes),
        machine=machine,
        model=model if first.gpus else "",
        gpu_memory=memory if first.gpus else None,
        gpu_memory_source=source,
    )


# ParallelCluster gives one of them to each node. It configures one thread per core, also where the
# CPUs are threads.
_OF_PARALLELCLUSTER = frozenset(("static", "dynamic"))


def _in_order(features: list[str], machine: MachineFacts | None) -> tuple[str, ...]:
    """The features that tell types apart come first: a job asks for the first that others lack."""
    machine_name = machine.name if machine else ""
    return tuple(
        sorted(features, key=lambda one: (one != machine_name, one in _OF_PARALLELCLUSTER))
    )


def is_of_parallelcluster(features: Iterable[str]) -> bool:
    """Whether ParallelCluster made a node with these features."""
    return bool(_OF_PARALLELCLUSTER & set(features))


def _model(node: Node) -> str:
    """NVIDIA's name: of the type in Gres or gres.conf, or of the only feature that is a model."""
    kind = node.gpus[0].type if node.gpus else ""
    if known := gpu_model_of(kind or node.model):
        return known
    models = {model for one in node.features or () if (model := gpu_model_of(one))}
    return models.pop() if len(models) == 1 else ""


def _smallest(numbers: Iterable[int | None]) -> int | None:
    found = list(numbers)
    return None if None in found else min(number for number in found if number is not None)


# `80gb`, `hbm80g`, `gpumem40`, `a100_80`: sites name the memory of a GPU so.
_MEMORY = re.compile(r"(hbm|gpu_?mem|gmem|vram|[abhv]\d{2,3}[-_]?)?_?(\d{2,3})(gb?)?")
_SIZES = frozenset((11, 12, 16, 24, 32, 40, 48, 64, 80, 94, 96, 141, 180, 192))


def _memory_in(node: Node) -> tuple[float | None, str]:
    """GiB of one GPU by a feature, and its source; not a feature for the memory of the node."""
    if not node.gpus:
        return None, ""
    for feature in node.features or ():
        found = _MEMORY.fullmatch(feature.lower())
        if not found or int(found[2]) not in _SIZES or not (found[1] or found[3]):
            continue
        of_node = abs(int(found[2]) * 1000 - (node.memory_mib or 0)) < 0.2 * (node.memory_mib or 1)
        if found[1] or not of_node:
            return float(found[2]), f"feature {feature}"
    return None, ""


# ------------------------------------------------------------------ names

_NOT_IN_NAMES = re.compile(r"[^A-Za-z0-9_.+]+")


def _named(kinds: list[NodeKind]) -> list[NodeKind]:
    """Each with a name of its own, made longer only by what differs between equal names."""
    names = [_base(kind) for kind in kinds]
    for parts in zip(*map(_name_parts, kinds), strict=True):
        longer = list(names)
        for index, name in enumerate(names):
            same = [parts[other] for other, one in enumerate(names) if one == name]
            if len(set(same)) > 1 and parts[index]:
                longer[index] = f"{name}-{parts[index]}"
        names = longer
    used: dict[str, int] = {}
    result = []
    for kind, name in zip(kinds, names, strict=True):
        used[name] = used.get(name, 0) + 1
        own = name if used[name] == 1 else f"{name}-{used[name]}"
        result.append(dataclasses.replace(kind, name=own))
    return result


def _base(kind: NodeKind) -> str:
    if kind.machine:
        return kind.machine.name
    if kind.gpus:
        text = kind.gpu_type or kind.model.replace(" ", "").lower() or "gpu"
    elif kind.hinted_model:
        text = kind.hinted_model.replace(" ", "").lower()
    elif kind.hinted_gpus:
        text = "gpu"
    else:
        text = "cpu" if kind.gpus is not None else "nodes"
    return _NOT_IN_NAMES.sub("-", text).strip("-.") or "gpu"


def _name_parts(kind: NodeKind) -> tuple[str, ...]:
    """What a name can be made longer by, in this order; "" if it is unknown."""
    return (
        f"{kind.gpu_memory:.0f}gb" if kind.gpu_memory else "",
        f"x{sum(one.number for one in kind.gpus)}" if kind.gpus else "",
        f"{kind.cpus}c" if kind.cpus else "",
        f"{round(kind.memory_mib / 1000)}g" if kind.memory_mib else "",
    )
