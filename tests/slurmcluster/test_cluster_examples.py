"""The descriptions in examples/slurm/clusters, and the ready ones of Google Cluster Toolkit."""

from __future__ import annotations

import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import yaml

from clusterjobs import resources
from clusterjobs.clusters.described.source import DescriptionSource
from clusterjobs.clusters.source import is_description

Run = Callable[..., Any]

EXAMPLES = pathlib.Path(__file__).parents[2] / "examples"
CLUSTERS = sorted(EXAMPLES.glob("slurm/clusters/*.yaml"))
READY = sorted(
    path
    for path in resources.cluster_configs_dir().glob("*.yaml")
    if is_description(path.read_text())
)
each_description = pytest.mark.parametrize("path", [*CLUSTERS, *READY], ids=lambda path: path.stem)


@each_description
def test_description_is_valid_without_warnings(clusterjobs: Run, path: pathlib.Path) -> None:
    outcome = clusterjobs("validate", path)
    assert outcome.code == 0
    assert "warning:" not in outcome.err


@each_description
def test_every_description_has_an_example(path: pathlib.Path) -> None:
    specs = [*EXAMPLES.glob("slurm/*.yaml"), *EXAMPLES.glob("*.yaml")]
    used = {yaml.safe_load(spec.read_text()).get("cluster") for spec in specs}
    assert used & {path.stem, f"clusters/{path.name}"}


def conf(nodes: str, count: int, partition: str, cpus: int, threads: int, memory: int) -> str:
    """A slurm.conf as Google's Cluster Toolkit writes it, with its cloud.conf."""
    names = f"cluster-{partition}nodeset-[0-{count - 1}]"
    return f"""\
ClusterName=cluster
SlurmctldHost=cluster-controller
SelectType=select/cons_tres
SelectTypeParameters=CR_Core_Memory
PrivateData=cloud
GresTypes=gpu
NodeSet=x-login Feature=x-login
PartitionName=x-login Nodes=x-login State=UP DefMemPerCPU=1 Hidden=YES RootOnly=YES
NodeName=DEFAULT State=UNKNOWN RealMemory={memory} Boards=1 SocketsPerBoard=1 \
CoresPerSocket={cpus // threads} ThreadsPerCore={threads} CPUs={cpus}
NodeName={names} State=CLOUD Gres=gpu:8
NodeSet={nodes} Nodes={names}
PartitionName={partition} Nodes={nodes} State=UP Default=YES DefMemPerCPU=1024 SuspendTime=300 \
OverSubscribe=EXCLUSIVE
SuspendExcParts=x-login
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("gcp-a2", conf("a2nodeset", 20, "a2", 48, 1, 675520)),
        ("gcp-a3-high", conf("a3nodeset", 32, "a3", 208, 2, 1860368)),
        ("gcp-a3-mega", conf("a3meganodeset", 32, "a3mega", 208, 2, 1860368)),
    ],
)
def test_a_ready_description_has_the_facts_of_the_toolkits_slurm_conf(
    clusterjobs: Run, folder: pathlib.Path, name: str, text: str
) -> None:
    (folder / "slurm.conf").write_text(text)
    outcome = clusterjobs("clusters", "import", "--from-files", "slurm.conf")
    assert outcome.code == 0, outcome.err
    imported = DescriptionSource(outcome.out, "imported.yaml").facts
    ready = DescriptionSource((resources.cluster_configs_dir() / f"{name}.yaml").read_text(), name)
    seen = [
        (
            facts.default_partition,
            facts.write_partition,
            [
                (
                    one.name,
                    one.exclusive,
                    one.max_time,
                    [
                        (group.max_nodes, group.features, *_of_slurm(group.node_type))
                        for group in one.node_groups
                    ],
                )
                for one in facts.partitions
            ],
        )
        for facts in (imported, ready.facts)
    ]
    assert seen[0] == seen[1]


def _of_slurm(node_type: Any) -> tuple[object, ...]:
    """What Slurm itself knows of a node type."""
    one = node_type
    return one.cpus, one.cpus_are_cores, one.memory_mib, one.gpus, one.gpu_gres_type
