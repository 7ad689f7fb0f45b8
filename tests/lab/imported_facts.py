"""What `clusters import` reads in a lab, in a form that can be compared with the lab's cluster."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

from clusterjobs.clusters.facts import ClusterFacts, NodeType
from clusterjobs.clusters.source import ClusterSource, SlurmNodes, SlurmPartition, SlurmShape
from clusterjobs.lab.lab import Lab
from clusterjobs.runs.clusters import cluster_source


def source_of(text: str, name: str = "shape") -> ClusterSource:
    return cluster_source(text, f"{name}.yaml", {})


def imported(lab: Lab, *options: str) -> str:
    """The description that the import prints on the lab's head node."""
    program = pathlib.Path(sys.executable).with_name("clusterjobs")
    as_on_a_cluster = ["bash", "-c", 'PATH=/opt/slurm/bin:$PATH; exec "$0" "$@"']
    command = [str(program), "clusters", "import", "--from-slurm", *options]
    done = lab.run([*as_on_a_cluster, *command])
    assert done.returncode == 0, done.stderr
    return done.stdout


def facts_of(shape: SlurmShape) -> dict[str, Any]:
    """All that Slurm knows; names of nodes and of node types are the description's own."""
    return {
        "memory scheduling": shape.memory_scheduling,
        "default": [one.name for one in shape.partitions if one.default],
        "partitions": {one.name: _limits(one) for one in shape.partitions},
        "nodes": {one.name: _nodes(one) for one in shape.partitions},
    }


def _limits(partition: SlurmPartition) -> dict[str, Any]:
    return {
        "exclusive": partition.exclusive,
        "max_time": partition.max_time,
        "max_nodes": partition.max_nodes,
    }


def _nodes(partition: SlurmPartition) -> dict[tuple[object, ...], tuple[int, frozenset[str]]]:
    """The number of nodes of each hardware, and the features that all of them have."""
    found: dict[tuple[object, ...], tuple[int, frozenset[str]]] = {}
    for group in partition.groups:
        key, features = _hardware(group), frozenset(group.features)
        count, common = found.get(key, (0, features))
        found[key] = (count + group.count, common & features)
    return found


def _hardware(group: SlurmNodes) -> tuple[object, ...]:
    machine = next((one for one in group.features if one.endswith("xlarge")), "")
    return (group.cpus, group.threads_per_core, group.real_memory, group.gres, machine)


def planned_facts(facts: ClusterFacts) -> dict[str, Any]:
    """What a plan knows of the partitions and nodes."""
    return {
        one.name: (
            one.exclusive,
            one.max_time,
            sum(group.max_nodes or 0 for group in one.node_groups),
            {_hardware_fact(group.node_type) for group in one.node_groups},
            any(group.fabric == "efa" for group in one.node_groups),
        )
        for one in facts.partitions
    }


def _hardware_fact(node_type: NodeType) -> tuple[object, ...]:
    gpus = node_type.gpus or 0
    kind = (node_type.gpu_model, node_type.gpu_gres_type) if gpus else ()
    return (node_type.cpus, node_type.memory_mib, gpus, kind)
