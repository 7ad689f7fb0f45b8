"""What a plan knows of a described cluster."""

from __future__ import annotations

import itertools

import pytest

from clusterjobs.clusters.described.source import DescriptionSource
from clusterjobs.clusters.facts import ClusterFacts, Mount, NodeType
from clusterjobs.clusters.source import is_description
from clusterjobs.errors import InputError, Problem

FULL = """\
kind: slurm
name: booster
slurm_version: 23.02.7
default_partition: batch
node_types:
  a100:
    cpus: 96
    threads_per_core: 2
    memory_mib: 512000
    gpus: 4
    gpu_type: a100
    gpu_memory: 40
    features: [gpu, mem512]
    fabric: infiniband
    fabric_interfaces: 4
    network_gbps: 800
    scratch: /local/
    local_disk_gb: 1600
  cpu: {cpus: 48, threads_per_core: 1, memory_mib: 96000, gpus: 0, features: [mem96]}
partitions:
  batch:
    nodes: {a100: 936}
    max_time: 1-00:00:00
    max_nodes: 384
    exclusive: true
  mixed:
    nodes: {a100: 8, cpu: 100}
    max_nodes: 50
    max_time: infinite
shared: {/p/scratch/: gpfs, /home: nfs}
slurm_commands: /opt/slurm/bin
fabric: ethernet
"""


def facts_of(text: str, file: str = "cluster.yaml") -> ClusterFacts:
    return DescriptionSource(text, file).facts


def test_every_key_becomes_a_fact() -> None:
    facts = facts_of(FULL)
    batch, mixed = facts.partitions
    (group,) = batch.node_groups
    assert group.node_type == NodeType(
        "a100",
        cpus=96,
        memory_mib=512000,
        gpus=4,
        gpu_model="A100",
        gpu_gres_type="a100",
        gpu_memory_gib=40,
        fabric="infiniband",
        fabric_interfaces=4,
        network_gbps=800,
        local_disk_gb=1600,
        scratch="/local",
        cpus_are_cores=False,
        threads_per_core=2,
    )
    assert (group.name, group.type_names, group.fabric) == ("a100", ("a100",), "infiniband")
    assert group.features == ("gpu", "mem512")
    assert (batch.exclusive, batch.max_time) == (True, 86400)
    assert (mixed.exclusive, mixed.max_time) == (False, None)
    assert facts.mounts == (Mount("/p/scratch", "gpfs"), Mount("/home", "nfs"))
    assert (facts.name, facts.slurm_version) == ("booster", "23.02.7")
    assert (facts.default_partition, facts.slurm_commands) == ("batch", "/opt/slurm/bin")
    assert (facts.mounts_complete, facts.shared_folders) == (True, ())


def test_a_job_has_at_most_the_nodes_of_its_type_and_of_the_limit() -> None:
    batch, mixed = facts_of(FULL).partitions
    assert [one.max_nodes for one in batch.node_groups] == [384]
    assert [one.max_nodes for one in mixed.node_groups] == [8, 50]


def test_what_stands_at_the_top_is_of_all_types_without_their_own() -> None:
    types = {
        one.node_type.name: one.node_type
        for partition in facts_of(FULL).partitions
        for one in partition.node_groups
    }
    assert (types["a100"].fabric, types["cpu"].fabric) == ("infiniband", "ethernet")


def test_lists_and_variables_of_a_type_are_added_to_those_at_the_top() -> None:
    text = """\
kind: slurm
env: {A: {value: "1", reason: top}, B: {value: "1", reason: top}}
setup: [module purge]
source: [/etc/site.sh]
node_types:
  gpu: {setup: "module load cuda", source: [/etc/gpu.sh], env: {B: {value: "2", reason: own}}}
partitions: {batch: {nodes: {gpu: 1}}}
"""
    found = DescriptionSource(text, "c.yaml").description.of_type("gpu")
    assert {name: one.value for name, one in found.env.items()} == {"A": "1", "B": "2"}
    assert found.setup == ("module purge", "module load cuda")
    assert found.source == ("/etc/site.sh", "/etc/gpu.sh")


def test_what_is_left_out_is_unknown_and_not_none() -> None:
    smallest = "kind: slurm\nnode_types: {n: {}}\npartitions: {p: {nodes: {n: 1}}}\n"
    facts = facts_of(smallest, "sites/juwels.yaml")
    (group,) = facts.partitions[0].node_groups
    assert group.node_type == NodeType("n")
    assert (facts.name, facts.slurm_version, facts.mounts_complete) == ("juwels", None, False)
    assert facts.shared_folders == ("/home",)
    assert facts.partitions[0].max_time is None


@pytest.mark.parametrize(
    ("written", "model"),
    [
        ("gpu_type: a100", "A100"),
        ("gpu_type: nvidia_a100_3g.20gb", "A100"),
        ("gpu_model: NVIDIA A100-SXM4-40GB", "A100"),
        ("gpu_type: tesla, gpu_model: V100", "V100"),
        ("gpu_model: Tesla V100-SXM2-32GB", "V100"),
        ("gpu_type: h100-80", "H100"),
        ("gpu_model: AMD Instinct MI250X", "AMD Instinct MI250X"),
        ("gpu_type: gpu", None),
    ],
)
def test_model_of_a_gpu_is_known_by_the_name_of_its_maker_or_of_slurm(
    written: str, model: str | None
) -> None:
    text = f"kind: slurm\nnode_types: {{n: {{gpus: 4, {written}}}}}\n"
    facts = facts_of(text + "partitions: {p: {nodes: {n: 1}}}\n")
    assert facts.partitions[0].node_groups[0].node_type.gpu_model == model


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (FULL, True),
        ("\ufeff" + FULL, True),
        ("# a cluster\n\n" + FULL, True),
        ('"kind" : "slurm"\npartitions: {', True),
        ("{kind: slurm, node_types: {}}", True),
        ("partitions:\n  batch: {}\n", True),
        ("kind: Pod\n", True),
        ("Scheduling: {SlurmQueues: []}\nTags: [{kind: slurm}]\n", False),
        ("Region: us-east-1\nScheduling:\n  SlurmQueues: []\n", False),
        ("name: a\ncluster: small\nframework: torchrun\n", False),
        ("", False),
    ],
)
def test_a_description_is_told_by_its_content(text: str, expected: bool) -> None:
    assert is_description(text) is expected


JUNK = (
    ".nan",
    ".inf",
    "-1",
    "0",
    "''",
    "[]",
    "{}",
    "~",
    "a b",
    "9" * 400,
    '"\\u0007"',
    "{{ x }}",
    "${X}",
    "\t",
    "!t",
)


def test_a_damaged_description_is_refused_and_never_breaks() -> None:
    lines = FULL.splitlines(keepends=True)
    cut = (FULL[:end] for end in range(0, len(FULL), 3))
    without = ("".join((*lines[:i], *lines[i + 1 :])) for i in range(len(lines)))
    replaced = (
        "".join((*lines[:i], lines[i].partition(":")[0] + f": {junk}\n", *lines[i + 1 :]))
        for i, junk in itertools.product(range(len(lines)), JUNK)
    )
    texts = [*cut, *without, *replaced]
    problems = [problems_of(text) for text in texts]
    assert [one for one in problems if not one]
    for one in itertools.chain.from_iterable(problems):
        assert one.where, one
        assert one.hint, one


def problems_of(text: str) -> tuple[Problem, ...]:
    try:
        facts_of(text)
    except InputError as error:
        return error.problems
    return ()
