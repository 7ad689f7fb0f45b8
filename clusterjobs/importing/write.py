"""Writes the description of a Slurm cluster, with a comment where a value needs one.

A key whose value no text said is a commented line.
"""

import dataclasses
import re
from collections.abc import Iterator, Sequence
from typing import get_args

from clusterjobs.clusters.described.description import ContainerProgram
from clusterjobs.errors import counted, did_you_mean, one_problem
from clusterjobs.importing import yaml_lines as valid
from clusterjobs.importing.collect import partitions_with_nodes
from clusterjobs.importing.node_types import NodeKind, is_hyperpod, node_kinds
from clusterjobs.importing.nodes import ALLOWED, Node, Partition, Seen, job_defaults
from clusterjobs.importing.probe import Candidate, candidates, probe_of
from clusterjobs.importing.write_types import write_type
from clusterjobs.importing.yaml_lines import Lines, flow_list, flow_mapping, scalar

# ------------------------------------------------------------------ keys at the top


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
    # Of several, Slurm takes the last one.
    default = next((key for key, one in reversed(partitions.items()) if one.is_default), "")
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
    has_gpus = any(node.gpus for node in seen.nodes.values())
    if kind and "cons_tres" not in kind and has_gpus:
        lines.key("request_gpus", "gres", f"SelectType={kind} refuses --gpus-per-node")


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


def description_text(seen: Seen, wanted: Sequence[str], how: str, name: str = "") -> str:
    """The description as YAML. `wanted`: the partitions to keep, () for all; `how`: its origin.

    Raises InputError if a wanted partition does not exist, or nothing is left to describe.
    """
    partitions, left_out = _chosen(seen, wanted)
    kinds, members = _kinds(seen, partitions)
    lines = Lines()
    lines.comment(f"A Slurm cluster, described by {how}.")
    lines.comment("Check it, and fill in the commented lines that your jobs need.")
    used = {key: one for key, one in partitions.items() if members[key]}
    write_top(lines, seen, kinds, used, name)
    lines.blank()
    lines.key("node_types")
    for kind in kinds:
        write_type(lines, kind, seen.settings.get("tmpfs", ""), probe_of(kind, seen))
    lines.blank()
    lines.key("partitions")
    for key, one in used.items():
        _write_partition(lines, one, kinds, set(members[key]), seen)
    unused = [key for key in partitions if key not in used]
    empty = [f"the partition {key} is left out: it has no nodes" for key in unused]
    notes = [*left_out, *empty, *seen.notes]
    if notes:
        lines.blank()
    for note in notes:
        lines.comment(note)
    if not used:
        hint = "clusters import needs scontrol --oneliner show node, or slurm.conf"
        named = next(((key, one.nodes[0]) for key, one in partitions.items() if one.nodes), None)
        if named:
            hint = f"{named[0]} has {named[1]}, but no line NodeName={named[1]} is given: {hint}"
        raise one_problem("no partition has a node that is described", hint=hint)
    return lines.text()


def nodes_to_probe(seen: Seen, wanted: Sequence[str]) -> list[Candidate]:
    """One node of each type that the description will have."""
    partitions, _ = _chosen(seen, wanted)
    notes = [*seen.notes]  # description_text finds the same again
    kinds, members = _kinds(seen, partitions)
    seen.notes = notes
    return candidates(kinds, partitions, members)


# ------------------------------------------------------------------ which nodes and partitions


def _kinds(
    seen: Seen, partitions: dict[str, Partition]
) -> tuple[list[NodeKind], dict[str, list[str]]]:
    """The node types, and the names of each partition's nodes."""
    nodes = _described_nodes(seen, partitions)
    members = {
        key: [node.name for node in nodes.values() if _belongs(node, one)]
        for key, one in partitions.items()
    }
    used = {name for names in members.values() for name in names}
    return node_kinds((node for name, node in nodes.items() if name in used), members), members


def _chosen(seen: Seen, wanted: Sequence[str]) -> tuple[dict[str, Partition], list[str]]:
    """The partitions to describe, and notes about those that are left out."""
    every = partitions_with_nodes(seen)
    for name in wanted:
        if name not in every:
            what = f"there is no partition {name[:60]}"
            raise one_problem(what, hint=did_you_mean(name, list(every)))
    chosen, notes = {}, []
    for name, one in every.items():
        if wanted and name not in wanted:
            continue
        if not valid.is_name(name):
            notes.append(f"the partition {name} is left out: a description cannot have this name")
        elif one.root_only and not wanted:
            notes.append(f"the partition {name} is left out: only root may use it (RootOnly)")
        else:
            chosen[name] = one
    return chosen, notes


def _described_nodes(seen: Seen, partitions: dict[str, Partition]) -> dict[str, Node]:
    """The nodes of all texts, completed by what partitions have in sum.

    A node of several partitions has its part of the smallest, whose nodes are the most alike. What
    a larger one says of its GPUs is not used if that is another number.
    """
    parts: dict[str, Node] = {}
    for partition in sorted(partitions.values(), key=lambda one: one.total_nodes or 0):
        own = _from_sums(partition)
        if any(parts[name].gpus != one.gpus for name, one in own.items() if name in parts):
            own = {name: dataclasses.replace(one, gpus=None) for name, one in own.items()}
        for name, one in own.items():
            parts.setdefault(name, one)
    nodes = {
        name: _completed(one, parts[name], seen) if name in parts else one
        for name, one in seen.nodes.items()
        if one.is_real
    }
    for name, partition in partitions.items():
        unknown = [one for one in partition.nodes or () if one not in seen.nodes]
        known = [(seen.nodes[one], parts.get(one)) for one in partition.members & seen.nodes.keys()]
        fits = partition.total_cpus and all(part and _is_like(one, part) for one, part in known)
        if partition.total_nodes and (fits or not known):
            nodes |= {one: parts[one] for one in unknown}
        elif unknown:
            what = f"{counted(len(unknown), 'node')} of the partition {name} described by no text"
            seen.notes.append(f"left out: {what}, for example {unknown[0]}")
    return nodes


def _from_sums(partition: Partition) -> dict[str, Node]:
    """Nodes that all have an equal part of what the partition has; unknown where it has none."""
    if not partition.total_nodes:
        return {}
    count, names = partition.total_nodes, partition.nodes or ()
    cpus, gpus = partition.total_cpus or 0, partition.total_gpus
    memory = (partition.total_memory_mib or 0) // count
    is_equal = cpus % count == 0 and all(one.number % count == 0 for one in gpus)
    if not is_equal:
        return {name: Node(name, partitions=(partition.name,)) for name in names}
    one = Node(
        name="",
        cpus=cpus // count or None,
        memory_mib=memory if memory > 1 else None,  # 1: no node has a RealMemory
        # AccountingStorageTRES may leave GPUs out of the sums: without them they are unknown
        gpus=tuple(one._replace(number=one.number // count) for one in gpus) or None,
        partitions=(partition.name,),
    )
    return {name: dataclasses.replace(one, name=name) for name in names}


def _completed(node: Node, part: Node, seen: Seen) -> Node:
    """The node with its part of a partition's sums, unless it shows that the nodes differ."""
    if _is_like(node, part):
        return node.filled_from(part)
    if node.gpus is None and part.gpus:
        (partition,) = part.partitions
        seen.notes.append(
            f"the GPUs of {node.name} are unknown: it has {node.cpus} CPUs, and an equal part of "
            f"the partition {partition} would be {part.cpus}"
        )
    return node


def _is_like(node: Node, part: Node) -> bool:
    """Whether the node's own CPUs and GPUs, where they are known, are those of its equal part."""
    gpus = [sum(gpu.number for gpu in one.gpus or ()) for one in (node, part)]
    has_gpus = None in (node.gpus, part.gpus) or gpus[0] == gpus[1]
    return has_gpus and (
        node.cpus is None or part.cpus in (None, node.cpus, node.cpus + node.reserved_cpus)
    )


def _belongs(node: Node, partition: Partition) -> bool:
    if partition.nodes is None:
        return partition.name in node.partitions
    return node.name in partition.members


# ------------------------------------------------------------------ partitions

_LONGEST = 80  # a list of accounts can have hundreds


def _about_partition(one: Partition) -> Iterator[str]:
    if one.state != "UP":
        yield f"its state is {one.state}: it starts no jobs now"
    if groups := one.allowed.get("AllowGroups"):
        text = f"only for AllowGroups={','.join(groups)}"
        yield text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _job_defaults(one: Partition, seen: Seen) -> dict[str, int]:
    """A partition's, or else the cluster's; memory is for each CPU or for each node."""
    own, of_cluster = dict(one.job_defaults), job_defaults(seen.settings)
    if not {"DefMemPerCPU", "DefMemPerNode"}.isdisjoint(own):
        of_cluster = {key: value for key, value in of_cluster.items() if key.endswith("GPU")}
    return {**of_cluster, **own}


def _write_partition(
    lines: Lines, one: Partition, kinds: Sequence[NodeKind], members: set[str], seen: Seen
) -> None:
    lines.key(one.name, why="; ".join(_about_partition(one)), depth=1)
    counts = {kind.name: sum(node.name in members for node in kind.nodes) for kind in kinds}
    lines.key("nodes", flow_mapping({key: n for key, n in counts.items() if n}), depth=2)
    limit = valid.max_time(one.max_time) if one.max_time else ""
    if limit:
        lines.key("max_time", scalar(limit), depth=2)
    else:
        lines.missing("max_time", '"1-00:00:00"', "decides which time limits are refused", depth=2)
    if one.max_nodes:
        lines.key("max_nodes", str(one.max_nodes), depth=2)
    default = valid.max_time(one.default_time)
    if default not in ("", "UNLIMITED"):
        lines.key("default_time", scalar(default), "of a job without a time limit", depth=2)
    for setting, key in ALLOWED.items():
        if names := [name for name in one.allowed.get(setting, ()) if valid.is_name(name)]:
            lines.key(key, flow_list(names), setting, depth=2)
    if one.max_cpus_per_node:
        lines.key("max_cpus_per_node", str(one.max_cpus_per_node), depth=2)
    for name, value in _job_defaults(one, seen).items():
        unit, what = ("MiB; ", "memory") if "Mem" in name else ("", "CPUs")
        key = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
        lines.key(key, str(value), f"{unit}{name}: of a job that asks for no {what}", depth=2)
    if "linear" in seen.settings.get("selecttype", ""):
        lines.key("exclusive", "true", "SelectType=select/linear allocates whole nodes", depth=2)
    elif one.exclusive:
        lines.key("exclusive", "true", depth=2)
    elif not one.limits_known:
        lines.missing("exclusive", "true", "if jobs always get whole nodes", depth=2)
