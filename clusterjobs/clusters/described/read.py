"""Reads a description of a Slurm cluster, with the position of every problem."""

import functools
from collections.abc import Iterator

from clusterjobs.clusters.described.description import (
    KIND,
    Description,
    NodeType,
    Partition,
    folder,
)
from clusterjobs.errors import InputError, Problem, did_you_mean, in_order, nearest, one_problem
from clusterjobs.spec.validate import check_model
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted, look_at

# ------------------------------------------------------------------ slurm names
# Slurm's own names for what a description has, for hints: `RealMemory` is memory_mib here.


_KEYS = {
    "cpus: ...": ("cpus", "cputot", "procs", "ncpus", "vcpus"),
    "memory_mib: ..., in MiB": ("realmemory", "memory", "mem", "memory_gib", "memory_gb", "ram"),
    "threads_per_core: ...": ("threadspercore", "threads"),
    "gpus: ... and gpu_type: ...": ("gres", "gpu", "gpus_per_node", "ngpus"),
    "features: [...]": ("features", "feature", "activefeatures", "availablefeatures", "constraint"),
    "network_gbps: ...": ("bandwidth", "network", "network_gbit"),
    "local_disk_gb: ..., and scratch: ... for its folder": ("tmpdisk", "tmp_disk", "local_disk"),
    "max_time: ...": ("maxtime", "timelimit", "time_limit", "time"),
    "max_nodes: ...": ("maxnodes",),
    "exclusive: true": ("oversubscribe", "shared_nodes"),
    "nodes: {TYPE: COUNT}": ("totalnodes", "count", "node_count", "num_nodes", "nodename"),
    "partitions: {NAME: {nodes: {TYPE: COUNT}}}": ("queues", "queue", "partitionname"),
    "node_types: {NAME: {...}}": ("instance_types", "nodes"),
    "shared: {/FOLDER: KIND}": ("mounts", "filesystems", "storage", "shared_folders"),
    "name: ...": ("clustername", "cluster_name", "cluster"),
    "slurm_version: ...": ("slurmversion", "version", "slurm"),
    "qos: [...]": ("qoses", "allowqos", "qos_list"),
    "accounts: [...]": ("account", "allowaccounts"),
    "deny_accounts: [...]": ("denyaccounts",),
    "deny_qos: [...]": ("denyqos",),
    "master_addr_suffix: ...": ("hostname_suffix", "node_suffix", "address_suffix"),
    "memory_scheduling: true": ("selecttypeparameters",),
    "default_partition: ...": ("default", "default_queue"),
    "source: [/FILE]": ("profile", "bashrc"),
    "setup: [...], lines of bash, for example module load NAME": ("modules", "module"),
}
_OURS = {word: ours for ours, words in _KEYS.items() for word in words}


def key_of_slurm(word: str) -> str:
    """What a description has in place of an unknown key; "" if nothing is known."""
    return _OURS.get(word.lower(), "")


_FABRICS = {
    "infiniband": ("ib", "edr", "hdr", "hdr100", "hdr200", "ndr", "ndr200", "ndr400", "mlx5"),
    "slingshot": ("hsn", "cxi", "ss10", "ss11", "slingshot11", "slingshot-11", "cassini"),
    "ethernet": ("tcp", "eth", "gige", "10gbe", "25gbe", "100gbe", "none"),
    "gvnic": ("gve", "fastsocket", "fast-socket"),
    "tcpx": ("gpudirect-tcpx", "gpudirecttcpx"),
    "tcpxo": ("gpudirect-tcpxo", "fastrak"),
}


def fabric_of(word: str) -> str:
    """The fabric that another word means; "" if nothing is known."""
    return next((ours for ours, words in _FABRICS.items() if word.lower() in words), "")


_EXAMPLE = "write kind: slurm, node_types: and partitions:; docs/slurm-clusters.md has an example"


@functools.lru_cache(maxsize=64)  # many specs name one cluster
def read_description(text: str, file: str) -> tuple[Description, Document]:
    """The description, and its document for the positions of its values.

    Raises InputError with all problems.
    """
    document = yaml_document.load(text, file)
    if not isinstance(document.value, dict):
        what = "the file is empty" if document.value is None else "expected a mapping"
        raise one_problem(what, document.locate(()), hint=_EXAMPLE)
    problems: list[Problem] = []
    found: Description | None = check_model(Description, document.value, document, problems)
    problems = _of_another_file(document) or list(map(_with_better_hint, problems))
    if found is None or problems:
        raise InputError(in_order(problems))
    if problems := [*_misfits(found, document)]:
        raise InputError(in_order(problems))
    return found, document


def _of_another_file(document: Document) -> list[Problem]:
    """The one problem of a file with another `kind:`, for example of Kubernetes."""
    kind = document.value.get("kind", KIND)
    if kind == KIND or nearest(str(kind), [KIND]):
        return []
    what = f"{kind!r} is not a kind of cluster" if isinstance(kind, str) else "expected text"
    hint = f"write kind: {KIND} for a description of a Slurm cluster"
    return [Problem(what, document.locate(("kind",)), "kind", hint)]


# ------------------------------------------------------------------ hints


def _with_better_hint(problem: Problem) -> Problem:
    """The problem with a hint for this format."""
    last, what = problem.path.rpartition(".")[2], problem.what
    hint = problem.hint
    if what == "the value is missing":
        hint = "write it, or remove the key if the value is unknown"
    elif last in _EXAMPLES and (what.endswith("is missing") or what in _NOT_OF_THE_KIND):
        hint = f"write {_EXAMPLES[last]}"
    elif what == "expected a mapping" and problem.path == f"node_types.{last}":
        hint = f"write {last}: {{cpus: 96, gpus: 4}}"
    elif what.startswith("unknown key "):
        hint = _about_unknown_key(what.removeprefix("unknown key "), problem)
    elif last == "fabric" and (ours := fabric_of(what.partition("'")[2].partition("'")[0])):
        hint = f"write {ours}"
    return problem._replace(hint=hint)


_NOT_OF_THE_KIND = ("expected a mapping", "expected a list")
_EXAMPLES = {
    "kind": f"kind: {KIND}",
    "node_types": "node_types: {a100: {cpus: 96, gpus: 4}}",
    "partitions": "partitions: {batch: {nodes: {a100: 16}}}",
    "nodes": "nodes: {TYPE: COUNT}, with a name of node_types",
    "shared": "shared: {/FOLDER: KIND}, for example {/scratch: lustre}",
    "env": "env: {NAME: {value: ..., reason: why it is set}}",
    "features": "features: [gpu, mem512]",
}


def _about_unknown_key(key: str, problem: Problem) -> str:
    inside = problem.path.split(".")[0]
    if key in NodeType.model_fields and inside != "node_types":
        return f"write it in a node type: node_types: {{NAME: {{{key}: ...}}}}"
    if key in Partition.model_fields and inside != "partitions":
        return f"write it in a partition: partitions: {{NAME: {{{key}: ...}}}}"
    if key in Description.model_fields and inside != key:
        return f"write it at the top, beside kind: {KIND}"
    ours = key_of_slurm(key)
    return f"write {ours}" if ours else problem.hint


# ------------------------------------------------------------------ values that must fit


def _misfits(found: Description, document: Document) -> Iterator[Problem]:
    def problem(path: Path, what: str, hint: str, at_key: bool = False) -> Problem:
        where = document.locate_key(path) if at_key else document.locate(path)
        return Problem(what, where, dotted(path), hint)

    for section in ("node_types", "partitions"):
        if not getattr(found, section):
            yield problem((section,), f"{section} is empty", f"write {_EXAMPLES[section]}", True)
    types = list(found.node_types)
    for name, partition in found.partitions.items():
        path: Path = ("partitions", name, "nodes")
        if not partition.nodes:
            yield problem(path, "the partition has no nodes", f"write {_EXAMPLES['nodes']}", True)
        for other in partition.nodes if types else ():
            if other not in found.node_types:
                what = f"there is no node type {other}"
                yield problem((*path, other), what, did_you_mean(other, types), True)
    default, names = found.default_partition, list(found.partitions)
    if default is not None and names and default not in names:
        what = f"there is no partition {default}"
        yield problem(("default_partition",), what, did_you_mean(default, names))
    for name in types:
        yield from _misfits_of_type(name, found.of_type(name), document)
    yield from _folders_given_twice(document)


def _folders_given_twice(document: Document) -> Iterator[Problem]:
    """`/scratch` and `/scratch/`: one of the two kinds would be lost."""
    first: dict[str, str] = {}
    for written in document.value.get("shared", {}):
        path: Path = ("shared", written)
        if folder(written) in first:
            what = f"the same folder as {first[folder(written)]}"
            yield Problem(what, document.locate_key(path), dotted(path), "remove one of the two")
        first.setdefault(folder(written), written)


_OF_GPUS = ("gpu_type", "gpu_model", "gpu_memory")


def _misfits_of_type(name: str, node_type: NodeType, document: Document) -> Iterator[Problem]:
    path: Path = ("node_types", name)
    if node_type.gpus == 0:
        for key in _OF_GPUS:
            if getattr(node_type, key) is not None:
                where = document.locate_key((*path, key))
                what, hint = "the nodes have no GPUs (gpus: 0)", "remove one of the two keys"
                yield Problem(what, where, dotted((*path, key)), hint)
    cpus, threads = node_type.cpus, node_type.threads_per_core
    if cpus and threads and cpus % threads:
        where = document.locate((*path, "threads_per_core"))
        what = f"{cpus} CPUs are no whole number of cores with {threads} threads each"
        hint = "cpus is CPUTot, and threads_per_core ThreadsPerCore, of `scontrol show node`"
        yield Problem(what, where, dotted((*path, "threads_per_core")), hint)
    if node_type.request_gpus == "none" and node_type.gpu_type is not None:
        at_top = look_at(document.value, (*path, "request_gpus")) is None
        own: Path = ("request_gpus",) if at_top else (*path, "request_gpus")
        what = f"none, but gpu_type of {name} says that Slurm counts the GPUs"
        hint = "remove gpu_type, which is the type in Slurm's Gres, or write gres"
        yield Problem(what, document.locate(own), dotted(own), hint)


# ------------------------------------------------------------------ unclear
# What a description leaves unknown or unclear, as warnings and notes of `validate`.
# A description with all of them is still a valid one.


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
