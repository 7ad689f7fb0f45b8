"""Writes the keys at the top of a description: the cluster's name, Slurm's version, what is shared.

It knows which setting of Slurm, or which file of the node, says it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from clusterjobs.slurmcluster.description import ContainerProgram
from clusterjobs.slurmcluster.importing import valid
from clusterjobs.slurmcluster.importing.instance_facts import is_hyperpod
from clusterjobs.slurmcluster.importing.node_types import NodeKind
from clusterjobs.slurmcluster.importing.seen import Partition, Seen
from clusterjobs.slurmcluster.importing.yaml_lines import Lines, flow_list, scalar

_MAX_LISTED = 50


def write_top(
    lines: Lines,
    seen: Seen,
    kinds: Sequence[NodeKind],
    partitions: dict[str, Partition],
    name: str,
) -> None:
    """All keys before `node_types`."""
    lines.key("kind", "slurm")
    own = name or seen.settings.get("clustername", "")
    if valid.is_name(own):
        lines.key("name", scalar(own))
    else:
        lines.missing("name", "mycluster", "the name in messages and job scripts")
    _write_version(lines, seen)
    default = next((key for key, one in partitions.items() if one.is_default), "")
    if default:
        lines.key("default_partition", scalar(default))
    _write_scheduling(lines, seen)
    _write_programs(lines, seen)
    _write_shared(lines, seen)
    probed = any(one.auto_resume for one in seen.probed.values())
    if probed or any(kind.machine and is_hyperpod(kind.machine.name) for kind in kinds):
        why = "SageMaker HyperPod: srun --auto-resume=1 replaces a faulty node"
        lines.key("auto_resume", "true", why)
    _write_names(lines, "accounts", seen.accounts, "names for --account; others cause a warning")
    _write_names(lines, "qos", seen.qos, "names for --qos; others cause a warning")


def is_linear(seen: Seen) -> bool:
    return "linear" in seen.settings.get("selecttype", "")


def tmp_folder(seen: Seen) -> str:
    """TmpFS, where it is known and not Slurm's default."""
    return seen.settings.get("tmpfs", "")


def _write_version(lines: Lines, seen: Seen) -> None:
    version = seen.settings.get("slurm_version", "")
    if valid.is_version(version):
        lines.key("slurm_version", scalar(version))
        return
    of_nodes = [node.version for node in seen.nodes.values() if valid.is_version(node.version)]
    if of_nodes:
        oldest = min(of_nodes, key=_order)
        lines.key("slurm_version", scalar(oldest), "of slurmd, as the nodes report it")
    else:
        lines.missing("slurm_version", '"23.02.7"', "decides what job scripts may use")


def _order(version: str) -> list[int]:
    return [int(part) for part in version.split(".") if part.isdecimal()]


def _write_scheduling(lines: Lines, seen: Seen) -> None:
    kind = seen.settings.get("selecttype", "")
    parameters = seen.settings.get("selecttypeparameters", "").upper()
    if not kind and not parameters:
        lines.missing("memory_scheduling", "true", "decides whether jobs ask for memory")
    else:
        has = "MEMORY" in parameters
        lines.key("memory_scheduling", scalar(has), f"SelectTypeParameters={parameters or 'NONE'}")
    # sbatch(1): --gpus-per-node and the like need select/cons_tres
    if kind and "cons_tres" not in kind:
        why = f"SelectType={kind} refuses --gpus-per-node"
        if _has_gpus(seen):
            lines.key("request_gpus", "gres", why)


def _has_gpus(seen: Seen) -> bool:
    return any(node.gpus for node in seen.nodes.values())


def _write_programs(lines: Lines, seen: Seen) -> None:
    if valid.is_folder(seen.slurm_commands):
        why = "where this node has srun; remove it if all users have it on their PATH"
        lines.key("slurm_commands", scalar(seen.slurm_commands), why)
    if seen.has_pyxis:
        lines.key("container_program", "pyxis", "srun has --container-image")
    else:
        usable = [one for one in seen.found_programs if one in get_args(ContainerProgram)]
        example = next(iter(usable), "apptainer")
        why = "pyxis, apptainer, singularity, docker or shifter"
        if usable:
            why = f"{example} is on the PATH of this node; check that of the compute nodes"
        lines.missing("container_program", example, why)


def _write_shared(lines: Lines, seen: Seen) -> None:
    why = "decides which paths all nodes have; list all of them"
    if seen.mounts is None:
        lines.missing("shared", "{/home: nfs, /scratch: lustre}", why)
        return
    found = {**seen.exports, **seen.mounts}
    usable = {folder: kind for folder, kind in found.items() if valid.is_folder(folder)}
    if not usable:
        lines.missing("shared", "{/home: nfs}", f"this node mounts none; {why}")
        return
    lines.key("shared", why="mounts of one node; remove those that compute nodes lack")
    for folder, kind in sorted(usable.items()):
        own = "" if folder in seen.mounts else "exported by this node (/etc/exports)"
        lines.key(folder, scalar(kind), own, depth=1)
    if "/home" not in usable:
        lines.missing("/home", "nfs", "if compute nodes mount it from here", depth=1)


def _write_names(lines: Lines, key: str, names: Sequence[str] | None, decides: str) -> None:
    usable = [name for name in names or () if valid.is_name(name)]
    if usable:
        more = f"the first {_MAX_LISTED} of {len(usable)}" if len(usable) > _MAX_LISTED else ""
        lines.key(key, flow_list(usable[:_MAX_LISTED]), more)
    elif names is None:
        lines.missing(key, "[myproject]" if key == "accounts" else "[normal]", decides)
