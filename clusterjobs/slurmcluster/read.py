"""Reads a description of a Slurm cluster, with the position of every problem.

It knows which values must fit each other. It must not read files, or know what a plan needs.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from clusterjobs.errors import InputError, Problem, did_you_mean, in_order, one_problem
from clusterjobs.slurmcluster.description import KIND, Description, NodeType, Partition
from clusterjobs.slurmcluster.slurm_words import key_of_slurm
from clusterjobs.spec.validate import check_model
from clusterjobs.yaml import document as yaml_document
from clusterjobs.yaml.document import Document, Path, dotted, look_at

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
    problems = list(map(_with_better_hint, problems))
    if found is None or problems:
        raise InputError(in_order(problems))
    if problems := [*_misfits(found, document)]:
        raise InputError(in_order(problems))
    return found, document


# ------------------------------------------------------------------ hints


def _with_better_hint(problem: Problem) -> Problem:
    """The same problem, with a hint that knows this format."""
    if problem.path == "kind":
        return problem._replace(hint=f"write kind: {KIND}")
    if problem.path in _EXAMPLES and problem.what.endswith("is missing"):
        return problem._replace(hint=f"add {_EXAMPLES[problem.path]}")
    key = problem.what.removeprefix("unknown key ")
    if key != problem.what:
        return problem._replace(hint=_about_unknown_key(key, problem))
    return problem


_EXAMPLES = {
    "node_types": "node_types: {a100: {cpus: 96, gpus: 4}}",
    "partitions": "partitions: {batch: {nodes: {a100: 16}}}",
}


def _about_unknown_key(key: str, problem: Problem) -> str:
    if ours := key_of_slurm(key):
        return f"write {ours}"
    inside = problem.path.split(".")[0]
    if key in NodeType.model_fields and inside != "node_types":
        return f"it stands in a node type: node_types: {{NAME: {{{key}: ...}}}}"
    if key in Partition.model_fields and inside != "partitions":
        return f"it stands in a partition: partitions: {{NAME: {{{key}: ...}}}}"
    if key in Description.model_fields and inside != key:
        return f"it stands at the top, beside kind: {KIND}"
    return problem.hint


# ------------------------------------------------------------------ values that must fit


def _misfits(found: Description, document: Document) -> Iterator[Problem]:
    def problem(path: Path, what: str, hint: str, at_key: bool = False) -> Problem:
        where = document.locate_key(path) if at_key else document.locate(path)
        return Problem(what, where, dotted(path), hint)

    for section in ("node_types", "partitions"):
        if not getattr(found, section):
            yield problem((section,), f"{section} is empty", f"add {_EXAMPLES[section]}", True)
    types = list(found.node_types)
    for name, partition in found.partitions.items():
        path: Path = ("partitions", name, "nodes")
        if not partition.nodes:
            yield problem(path, "the partition has no nodes", "write nodes: {TYPE: COUNT}", True)
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


_OF_GPUS = ("gpu_type", "gpu_model", "gpu_memory")


def _misfits_of_type(name: str, node_type: NodeType, document: Document) -> Iterator[Problem]:
    path: Path = ("node_types", name)
    if node_type.gpus == 0:
        for key in _OF_GPUS:
            if getattr(node_type, key) is not None:
                where = document.locate_key((*path, key))
                what, hint = f"gpus: 0, so the nodes have no {key}", "remove one of the two keys"
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
        what = f"request_gpus: none, but gpu_type of {name} says that Slurm counts the GPUs"
        hint = "remove gpu_type, which is the type in Slurm's Gres, or write gres"
        yield Problem(what, document.locate(own), dotted(own), hint)
