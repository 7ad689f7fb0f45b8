"""What a description leaves unknown or unclear, as warnings and notes of `validate`.

It knows what each fact decides in a job. A description with all of them is still a valid one.
"""

from __future__ import annotations

from collections.abc import Iterator

from clusterjobs.clusters.described.description import Description, NodeType
from clusterjobs.errors import Problem
from clusterjobs.yaml.document import Document, Path, dotted

# Key of a node type -> what it decides.
DECIDES = {
    "cpus": "OMP_NUM_THREADS and cpus_per_task",
    "gpus": "gpus_per_node and the ranks of a node",
    "fabric": "the variables of the network",
    "memory_mib": "the size of /dev/shm in containers",
    "scratch": "where data of one node is staged: /tmp without it",
}


def unknown_keys(one: NodeType) -> Iterator[tuple[str, str]]:
    """The keys that a node type lacks, and what they decide."""
    yield from ((key, what) for key, what in DECIDES.items() if getattr(one, key) is None)


def unclear_values(found: Description, document: Document) -> Iterator[Problem]:
    """Warnings for what may go wrong, notes for what is unknown."""

    def note(path: Path, what: str, hint: str, info: bool = True) -> Problem:
        return Problem(what, document.locate_key(path), dotted(path), hint, True, info)

    alike: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for name in found.node_types:
        alike.setdefault(tuple(unknown_keys(found.of_type(name))), []).append(name)
    for lacking, (first, *others) in alike.items():
        if lacking:
            decides = "; ".join(f"{key} decides {what}" for key, what in lacking)
            what = f"unknown: {', '.join(key for key, _ in lacking)}"
            what += f", also of {', '.join(others)}" if others else ""
            yield note(("node_types", first), what, decides)
    if found.shared is None:
        hint = "with shared: {/FOLDER: KIND}, folders on a node's own disk are found"
        yield note((), "unknown: shared", hint)
    yield from _not_own_disks(found, document)
    used = {kind for one in found.partitions.values() for kind in one.nodes}
    for name in found.node_types:
        if name not in used:
            hint = "name it in nodes: of a partition, or remove it"
            yield note(("node_types", name), "no partition has nodes of it", hint, False)
    yield from _indistinct(found, document)


def _not_own_disks(found: Description, document: Document) -> Iterator[Problem]:
    for name in found.node_types:
        scratch = found.of_type(name).scratch
        if scratch and scratch in (found.shared or {}):
            own: Path = ("node_types", name, "scratch")
            path = own if found.node_types[name].scratch else ("scratch",)
            what = f"{scratch} is in shared, but scratch is a folder on the node's own disk"
            hint = "name that folder, for example /local, or remove the key: /tmp is used then"
            yield Problem(what, document.locate_key(path), dotted(path), hint, True)


def _indistinct(found: Description, document: Document) -> Iterator[Problem]:
    """Types of one partition that no feature tells apart: Slurm may give a job either."""
    for name, partition in found.partitions.items():
        features = {kind: set(found.of_type(kind).features) for kind in partition.nodes}
        for kind, own in features.items():
            others = [other for other in features if other != kind]
            if others and not own.difference(*(features[other] for other in others)):
                path: Path = ("partitions", name, "nodes", kind)
                what = f"no feature tells {kind} from {', '.join(others)}, so a job of "
                what += f"{name} may get either"
                hint = f"add to features of {kind} one that Slurm has for these nodes alone"
                yield Problem(what, document.locate_key(path), dotted(path), hint, True)
