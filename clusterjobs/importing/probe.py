"""What a probe of a node has found, and how it completes what Slurm says of the node's type.

The program that runs on the node is node/probe/probe.py.
"""

import contextlib
import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, NamedTuple

from pydantic import ValidationError

from clusterjobs.catalog import gpu_model_of
from clusterjobs.clusters.described.description import NodeType
from clusterjobs.importing import yaml_lines as valid
from clusterjobs.importing.node_types import NodeKind
from clusterjobs.importing.nodes import Node, Partition, Seen
from clusterjobs.importing.records import Text
from clusterjobs.importing.yaml_lines import Lines, scalar

# ------------------------------------------------------------------ shared file systems
# They are in /proc/mounts, in the output of mount, and in /etc/exports.


# The types of Linux (or of FUSE) for file systems that several nodes share. VAST and Isilon are
# mounted as NFS, IBM Storage Scale as gpfs.
_SHARED = {
    "nfs": "nfs",
    "nfs4": "nfs",
    "lustre": "lustre",
    "gpfs": "gpfs",
    "beegfs": "beegfs",
    "fuse.beegfs": "beegfs",
    "fhgfs": "beegfs",
    "wekafs": "weka",
    "weka": "weka",
    "ceph": "ceph",
    "fuse.ceph": "ceph",
    "fuse.ceph-fuse": "ceph",
    "panfs": "panfs",
    "glusterfs": "glusterfs",
    "fuse.glusterfs": "glusterfs",
    "pvfs2": "orangefs",
    "fuse.quobyte": "quobyte",
    "fuse.gcsfuse": "gcsfuse",
    "fuse.mount-s3": "s3",
    "fuse.s3fs": "s3",
    "dvs": "dvs",
    "cifs": "cifs",
}
_PROC = re.compile(r"(\S+) (/\S*) (\S+) (\S+) \d+ \d+\s*")
_MOUNT = re.compile(r"(\S+) on (/.*?) type (\S+) \((.*)\)\s*")
# amazon-efs-utils mounts through a tunnel of its own: 127.0.0.1
_EFS = re.compile(r"\.efs\.[a-z0-9-]+\.amazonaws\.com:|^127\.0\.0\.1:/")
_TOO_MANY = 4  # mounts of one folder, as the homes of users that autofs has mounted


def is_mounts(text: str) -> bool:
    """Whether most lines are those of /proc/mounts or mount."""
    lines = [line for line in text.splitlines() if line.strip()]
    fit = [line for line in lines if _PROC.fullmatch(line) or _MOUNT.fullmatch(line)]
    return bool(fit) and len(fit) * 2 > len(lines)


def shared_folders(text: Text) -> dict[str, str]:
    """The folders that are mounted from elsewhere, each with the kind of its file system."""
    found: dict[str, str] = {}
    automatic: set[str] = set()
    for line in text.lines:
        match = _PROC.fullmatch(line.text) or _MOUNT.fullmatch(line.text)
        if not match:
            continue
        source, folder, kind = _unescaped(match[1]), _unescaped(match[2]), match[3]
        if kind == "autofs":
            automatic.add(folder)
        elif kind == "fuse" and source == "mountpoint-s3":
            found[folder] = "s3"
        elif name := _SHARED.get(kind):
            is_efs = name == "nfs" and _EFS.search(source)
            found[folder] = "efs" if is_efs else name
    return _without_single_homes(found, automatic)


def _without_single_homes(found: dict[str, str], automatic: set[str]) -> dict[str, str]:
    """`/home` in place of `/home/ann`, `/home/bob`, ..."""
    by_parent: dict[str, list[str]] = {}
    for folder in found:
        by_parent.setdefault(str(PurePosixPath(folder).parent), []).append(folder)
    result = dict(found)
    for parent, folders in by_parent.items():
        kinds = {found[folder] for folder in folders}
        if parent != "/" and len(kinds) == 1 and (parent in automatic or len(folders) > _TOO_MANY):
            for folder in folders:
                del result[folder]
            result[parent] = kinds.pop()
    return dict(sorted(result.items()))


def exported_folders(text: Text) -> dict[str, str]:
    """The folders that this node itself gives to others by NFS: /etc/exports."""
    rows = [line.text.split("#")[0].split() for line in text.lines]
    return {row[0]: "nfs" for row in rows if len(row) > 1 and row[0].startswith("/")}


def _unescaped(text: str) -> str:
    """`\\040` is a blank: /proc/mounts writes blanks so."""
    return re.sub(r"\\([0-7]{3})", lambda found: chr(int(found[1], 8)), text)


MARK = "clusterjobs probe: "
_NETWORK = ("fabric", "fabric_interfaces", "network_gbps")
_DISK = ("scratch", "local_disk_gb")
_GPUS = ("gpus", "gpu_model", "gpu_memory")
_MAX_NOTES = 20


class Probed(NamedTuple):
    """One node. `values`: keys of its node type, all of them valid. `mounts`: its /proc/mounts."""

    node: str
    values: Mapping[str, Any]
    mounts: str = ""
    programs: tuple[str, ...] = ()
    slurm_commands: str = ""
    auto_resume: bool = False
    notes: tuple[str, ...] = ()


class Candidate(NamedTuple):
    """A node type to probe: one of `nodes`, the first if it is free, by a job in `partition`.

    `gres`: the GPUs that the job requests; else it does not see them.
    """

    kind: str
    partition: str
    nodes: tuple[str, ...]
    gres: str = ""


def read_probe(output: str, node: str) -> Probed | None:
    """What the program has printed on `node`; None if there is nothing that can be used.

    Other lines are those of prologs and of the site's own greetings.
    """
    lines = [line for line in output.splitlines() if line.startswith(MARK)]
    try:
        found = json.loads(lines[-1].removeprefix(MARK)) if lines else None
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict):
        return None
    values, notes = _valid_values(found), _texts(found.get("notes"))[:_MAX_NOTES]
    folder = found.get("slurm_commands")
    return Probed(
        node,
        values,
        mounts if isinstance(mounts := found.get("mounts"), str) else "",
        _texts(found.get("programs")),
        folder if isinstance(folder, str) and valid.is_folder(folder) else "",
        found.get("auto_resume") is True,
        notes,
    )


def _valid_values(found: Mapping[str, Any]) -> dict[str, Any]:
    """The values that a description accepts; a GPU gets its name in the catalogue, if any."""
    values: dict[str, Any] = {}
    for key in (*_NETWORK, *_DISK, *_GPUS, "env"):
        if found.get(key) is not None:
            with contextlib.suppress(ValidationError):
                values[key] = NodeType.model_validate({key: found[key]}).model_dump()[key]
    if model := values.get("gpu_model"):
        values["gpu_model"] = gpu_model_of(model) or model
    return values


def _texts(value: object) -> tuple[str, ...]:
    return tuple(one for one in value if isinstance(one, str)) if isinstance(value, list) else ()


# ------------------------------------------------------------------ which nodes


def candidates(
    kinds: Iterable[NodeKind],
    partitions: Mapping[str, Partition],
    members: Mapping[str, Sequence[str]],
) -> list[Candidate]:
    """One of each node type that has a node which is up, in a partition that starts jobs.

    A partition for everyone comes before one that only some may use.
    """
    found = []
    started = [name for name, one in partitions.items() if one.state == "UP"]
    started.sort(key=lambda name: bool(partitions[name].allowed))
    usable = {name: set(members[name]) for name in started}
    for kind in kinds:
        up = sorted((one for one in kind.nodes if not one.is_down), key=_rank)
        places = [
            (name, [node.name for node in up if node.name in nodes])
            for name, nodes in usable.items()
        ]
        partition, names = next(((name, names) for name, names in places if names), ("", []))
        if names:
            gres = ",".join(
                f"gpu:{one.type}:{one.number}" if one.type else f"gpu:{one.number}"
                for one in kind.gpus or ()
            )
            found.append(Candidate(kind.name, partition, tuple(names), gres))
    return found


def _rank(node: Node) -> tuple[bool, bool]:
    """Free nodes first, and those last that have to be started."""
    return node.is_cloud, "IDLE" not in node.states


# ------------------------------------------------------------------ what it completes


def complete_cluster(seen: Seen, probes: Iterable[Probed]) -> None:
    """The mounts of compute nodes count; a folder is shared if all of them mount it."""
    all_mounts = []
    for one in probes:
        seen.probed[one.node] = one
        if one.mounts:
            all_mounts.append(shared_folders(Text(f"/proc/mounts of {one.node}", one.mounts)))
        seen.found_programs = tuple(dict.fromkeys((*seen.found_programs, *one.programs)))
        seen.slurm_commands = seen.slurm_commands or one.slurm_commands
        seen.notes += [f"{one.node}: {note}" for note in one.notes]
    if all_mounts:
        first, *others = all_mounts
        seen.mounts = {path: kind for path, kind in first.items() if all(path in o for o in others)}


def probe_of(kind: NodeKind, seen: Seen) -> Probed | None:
    return next((seen.probed[one.name] for one in kind.nodes if one.name in seen.probed), None)


def completed(kind: NodeKind, probed: Probed) -> NodeKind:
    """The kind of node with the model and memory of its GPUs, if the probe has seen them."""
    values = probed.values
    if not values.get("gpus"):
        return kind
    return dataclasses.replace(
        kind,
        model=values.get("gpu_model") or kind.model,
        gpu_memory=values.get("gpu_memory") or kind.gpu_memory,
        gpu_memory_source=f"seen on {probed.node}",
    )


def write_uncounted_gpus(lines: Lines, probed: Probed | None, depth: int) -> bool:
    """GPUs that the node has, and Slurm does not count; False if there are none."""
    count = probed.values.get("gpus") if probed else None
    if not probed or not count:
        return False
    lines.key("gpus", str(count), f"seen on {probed.node}; Slurm does not count them", depth)
    lines.key("request_gpus", "none", depth=depth)
    for key in ("gpu_model", "gpu_memory"):
        if key in probed.values:
            lines.key(key, scalar(probed.values[key]), depth=depth)
    return True


def write_network(lines: Lines, probed: Probed, depth: int) -> None:
    """The fabric that the node has, and the environment that it needs."""
    _write(lines, probed, _NETWORK, depth)
    env = probed.values.get("env") or {}
    if env:
        lines.key("env", why=f"seen on {probed.node}", depth=depth)
    for name, one in env.items():
        pair = f"{{value: {scalar(one['value'])}, reason: {scalar(one['reason'])}}}"
        lines.key(name, pair, depth=depth + 1)


def write_disk(lines: Lines, probed: Probed, depth: int) -> None:
    """The local disk that the user may write to."""
    _write(lines, probed, _DISK, depth)


def _write(lines: Lines, probed: Probed, keys: Sequence[str], depth: int) -> None:
    why = f"seen on {probed.node}"
    for key in keys:
        if key in probed.values:
            lines.key(key, scalar(probed.values[key]), why, depth)
            why = ""
