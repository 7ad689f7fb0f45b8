"""Writes one node type of a description: Slurm's numbers, and what EC2 or Google say."""

import re
from collections.abc import Sequence

from clusterjobs.errors import counted
from clusterjobs.importing import yaml_lines as valid
from clusterjobs.importing.node_types import NodeKind, is_hyperpod, is_of_parallelcluster
from clusterjobs.importing.probe import (
    Probed,
    completed,
    write_disk,
    write_network,
    write_uncounted_gpus,
)
from clusterjobs.importing.yaml_lines import Lines, flow_list, scalar

_DEPTH = 2
_UNCOUNTED = "add it with gpus: jobs get the GPUs without a request"
# Models that exist with several sizes of memory. Source: NVIDIA's data sheets.
_GPU_MEMORIES = {"V100": ("16", "32"), "A100": ("40", "80"), "P100": ("12", "16")}
_SHOWN = 6


def write_type(lines: Lines, kind: NodeKind, tmp_folder: str, probed: Probed | None) -> None:
    """The node type, with a comment of its nodes. `probed`: what one of them has said itself."""
    lines.key(kind.name, why=_about_nodes(kind), depth=1)
    before = lines.keys
    _write_cpus(lines, kind)
    _write_gpus(lines, completed(kind, probed) if probed else kind, probed)
    features = [one for one in kind.features if valid.is_feature(one)]
    lost = f"only some of the nodes have {_some(kind.lost_features)}" if kind.lost_features else ""
    if features:
        lines.key("features", flow_list(features), lost, _DEPTH)
    elif lost:
        lines.comment(f"features: none that all nodes have; {lost}", _DEPTH)
    if probed and "fabric" in probed.values:
        write_network(lines, probed, _DEPTH)
    else:
        _write_network(lines, kind)
    if probed and "scratch" in probed.values:
        write_disk(lines, probed, _DEPTH)
    else:
        _write_disk(lines, kind, tmp_folder)
    if lines.keys == before:  # a mapping needs a key
        lines.key("features", "[]", "nothing else is known about these nodes", _DEPTH)


def _about_nodes(kind: NodeKind) -> str:
    names = [node.name for node in kind.nodes]
    text = counted(len(names), "node")
    text += f", {names[0]}" if len(names) == 1 else f", {names[0]} to {names[-1]}"
    down = [node.name for node in kind.nodes if node.is_down]
    if down:
        text += f"; {len(down)} down or drained: {_some(down)}"
    if any(node.is_cloud for node in kind.nodes):
        text += "; cloud nodes, which start when jobs need them"
    return text


def _some(names: tuple[str, ...] | list[str]) -> str:
    shown = ", ".join(names[:_SHOWN])
    return f"{shown}, ..." if len(names) > _SHOWN else shown


def _write_cpus(lines: Lines, kind: NodeKind) -> None:
    if kind.cpus:
        reserved = counted(kind.reserved_cpus, "CPU")
        why = f"beside {reserved} that Slurm keeps for the system" if kind.reserved_cpus else ""
        lines.key("cpus", str(kind.cpus), why, _DEPTH)
    else:
        lines.missing("cpus", "96", "as Slurm counts them; decides CPUs per rank", _DEPTH)
    threads = kind.threads_per_core
    if threads and kind.cpus and kind.cpus % threads == 0:
        lines.key("threads_per_core", str(threads), depth=_DEPTH)
    if kind.memory_mib:
        memories = {node.memory_mib for node in kind.nodes}
        why = "the smallest of these nodes" if len(memories) > 1 else ""
        lines.key("memory_mib", str(kind.memory_mib), why, _DEPTH)
    else:
        why = "Slurm has no RealMemory for these nodes; decides which --mem is refused"
        lines.missing("memory_mib", "512000", why, _DEPTH)


def _write_gpus(lines: Lines, kind: NodeKind, probed: Probed | None) -> None:
    if not kind.gpus:
        if not write_uncounted_gpus(lines, probed, _DEPTH):
            _write_no_gpus(lines, kind)
        return
    first, *others = kind.gpus
    why = ", ".join(f"{one.number} of type {one.type or 'none'}" for one in others)
    lines.key("gpus", str(first.number), f"and {why}, which jobs cannot mix" if why else "", _DEPTH)
    if valid.is_name(first.type):
        lines.key(
            "gpu_type", scalar(first.type), "a part of a GPU" if first.is_part else "", _DEPTH
        )
    source = kind.machine.source if kind.machine and kind.machine.gpu_model else ""
    if kind.model:
        lines.key("gpu_model", scalar(kind.model), source, _DEPTH)
    else:
        example = scalar((first.type or "A100").upper())
        lines.missing("gpu_model", example, "decides bf16, FP8 and peak speed", _DEPTH)
    if kind.gpu_memory:
        lines.key("gpu_memory", scalar(kind.gpu_memory), kind.gpu_memory_source, _DEPTH)
    else:
        known = _GPU_MEMORIES.get(kind.model or "", ("80",))
        choice = f" ({kind.model}: {' or '.join(known)})" if len(known) > 1 else ""
        why = f"GiB of one GPU{choice}; decides whether a model fits"
        lines.missing("gpu_memory", known[-1], why, _DEPTH)


def _write_no_gpus(lines: Lines, kind: NodeKind) -> None:
    if kind.hinted_gpus:
        why = f"{kind.hinted_gpus}: GPUs that Slurm does not count"
        lines.missing("gpus", "4", why, _DEPTH)
        lines.missing("request_gpus", "none", _UNCOUNTED, _DEPTH)
    elif kind.gpus is None:
        lines.missing("gpus", "8", "it is unknown which GPUs there are; decides the ranks", _DEPTH)
    elif kind.machine and kind.machine.gpu_model:
        why = f"{kind.machine.source}: it has {kind.machine.gpu_model}, but Slurm has no GRES"
        lines.missing("gpus", "8", why, _DEPTH)
        lines.missing("request_gpus", "none", _UNCOUNTED, _DEPTH)
    else:
        lines.key("gpus", "0", depth=_DEPTH)


def _write_network(lines: Lines, kind: NodeKind) -> None:
    machine = kind.machine
    fabric, why = _fabric(kind)
    if fabric:
        lines.key("fabric", fabric, why, _DEPTH)
    else:
        hint, feature = _hinted_fabric(kind.features)
        why = f"the feature {feature} hints at it; " if feature else ""
        why += "decides NCCL's environment: efa, infiniband, slingshot, gvnic, ethernet, ..."
        lines.missing("fabric", hint, why, _DEPTH)
    if machine and fabric == machine.fabric and machine.fabric_interfaces:
        lines.key("fabric_interfaces", str(machine.fabric_interfaces), depth=_DEPTH)
    if machine and machine.network_gbps:
        lines.key("network_gbps", scalar(machine.network_gbps), machine.source, _DEPTH)


def _fabric(kind: NodeKind) -> tuple[str, str]:
    """The fabric by the machine type, and why; "" if nothing is known."""
    if kind.machine is None or not kind.machine.fabric:
        return "", ""
    fabric, source = kind.machine.fabric, kind.machine.source
    if fabric != "efa":
        return fabric, source
    if "efa" in kind.features:
        return fabric, f"{source}, and the feature efa"
    if is_of_parallelcluster((*kind.features, *kind.lost_features)):
        return "ethernet", "ParallelCluster's feature efa is missing: EFA is not enabled"
    return fabric, f"{source}; write ethernet if the nodes were made without EFA"


_HINTS = (
    ("infiniband", re.compile(r"(?:ib|infiniband)(?:[-_0-9].*)?|(?:ib)?[ehn]dr\d*", re.IGNORECASE)),
    ("slingshot", re.compile(r"(?:slingshot|cxi|hsn).*", re.IGNORECASE)),
)


def _hinted_fabric(features: Sequence[str]) -> tuple[str, str]:
    """The fabric that a feature seems to name, and the feature."""
    for fabric, pattern in _HINTS:
        for feature in features:
            if pattern.fullmatch(feature):
                return fabric, feature
    return "infiniband", ""


def _write_disk(lines: Lines, kind: NodeKind, tmp_folder: str) -> None:
    machine = kind.machine
    if machine and machine.local_disk_gb:
        lines.key("local_disk_gb", str(machine.local_disk_gb), machine.source, _DEPTH)
    elif kind.temporary_mb and kind.temporary_mb >= 1000:
        lines.key("local_disk_gb", str(kind.temporary_mb // 1000), "TmpDisk", _DEPTH)
        if valid.is_folder(tmp_folder):
            lines.key("scratch", scalar(tmp_folder), "TmpFS", _DEPTH)
            return
    else:
        return
    folder, why = _usual_scratch(kind)
    lines.missing("scratch", folder, f"{why}; decides where data can be staged", _DEPTH)


def _usual_scratch(kind: NodeKind) -> tuple[str, str]:
    """The folder where the images of AWS mount the local disks; elsewhere sites choose."""
    if kind.machine and is_hyperpod(kind.machine.name):
        return "/opt/dlami/nvme", "where HyperPod's image mounts the local disks"
    if is_of_parallelcluster((*kind.features, *kind.lost_features)):
        return "/scratch", "where ParallelCluster mounts the local disks by default"
    return "/scratch", "the folder on the local disks"
