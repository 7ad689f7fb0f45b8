"""The nodes and partitions of Slurm that a description stands for."""

from __future__ import annotations

from clusterjobs.clusters.described.source import DescriptionSource
from clusterjobs.clusters.source import SlurmShape
from clusterjobs.lab.shape import LabSpec, gres_conf, lab_spec, slurm_conf

SHARED_NODES = """\
kind: slurm
name: booster
default_partition: batch
node_types:
  a100: {cpus: 96, threads_per_core: 2, memory_mib: 512000, gpus: 4, gpu_type: a100, features: [ib]}
  cpu: {cpus: 128, memory_mib: 256000, gpus: 0}
partitions:
  debug: {nodes: {a100: 2}, max_time: 30}
  batch: {nodes: {a100: 936}, max_time: 1-00:00:00, max_nodes: 384, exclusive: true}
  all: {nodes: {a100: 936, cpu: 240}}
"""


def shape_of(text: str) -> SlurmShape:
    return DescriptionSource(text, "mycluster.yaml").shape()


def one_type(node_type: str, **top: str) -> str:
    more = "".join(f"{key}: {value}\n" for key, value in top.items())
    nodes = "partitions: {batch: {nodes: {n: 3}}}\n"
    return f"kind: slurm\nnode_types:\n  n: {{{node_type}}}\n{nodes}{more}"


def conf_of(spec: LabSpec) -> list[str]:
    return slurm_conf(spec, "me", None, 1, (24, 11, 5)).splitlines()


def test_a_node_that_two_partitions_share_is_one_node() -> None:
    lines = conf_of(lab_spec(shape_of(SHARED_NODES), controller_only=True))
    assert lines[-5:] == [
        "NodeName=a100-[1-936] State=CLOUD CPUs=96 RealMemory=512000 "
        "Sockets=1 CoresPerSocket=48 ThreadsPerCore=2 Gres=gpu:a100:4 Feature=ib Weight=1",
        "NodeName=cpu-[1-240] State=CLOUD CPUs=128 RealMemory=256000 Weight=1",
        "PartitionName=debug Nodes=a100-[1-2] Default=NO MaxTime=00:30:00 State=UP",
        "PartitionName=batch Nodes=a100-[1-936] Default=YES MaxTime=1-00:00:00 MaxNodes=384 "
        "State=UP OverSubscribe=EXCLUSIVE",
        "PartitionName=all Nodes=a100-[1-936],cpu-[1-240] Default=NO MaxTime=INFINITE State=UP",
    ]


def test_a_lab_starts_some_nodes_of_each_type() -> None:
    spec = lab_spec(shape_of(SHARED_NODES), nodes_per_queue=2)
    names = ["a100-1", "a100-2", "cpu-1", "cpu-2"]
    assert [node.name for node in spec.nodes] == names


def test_gpus_need_no_type() -> None:
    spec = lab_spec(shape_of(one_type("cpus: 8, memory_mib: 1000, gpus: 4")))
    assert gres_conf(spec) == "NodeName=n-[1-2] Name=gpu File=/.lab/dev/nvidia[0-3]\n"


def test_gpus_that_nobody_requests_are_no_gres() -> None:
    text = one_type("cpus: 8, memory_mib: 1000, gpus: 4", request_gpus="none")
    assert "GresTypes" not in "\n".join(conf_of(lab_spec(shape_of(text))))


def test_what_is_unknown_is_enough_for_any_job() -> None:
    (line,) = [one for one in conf_of(lab_spec(shape_of(one_type("")))) if one.startswith("NodeN")]
    assert "CPUs=256 RealMemory=1048576" in line
    assert "Gres" not in line


def test_the_first_partition_is_the_default_if_none_is_named() -> None:
    (only,) = shape_of(one_type("cpus: 8")).partitions
    assert only.default


def test_names_of_nodes_are_host_names_of_their_own() -> None:
    kinds = ("a_100", "a.100", "a-100-2", "größe", "ml.p5.48xlarge", "x" * 200)
    types = "".join(f"  {kind}: {{cpus: 1}}\n" for kind in kinds)
    nodes = ", ".join(f"{kind}: 1" for kind in kinds)
    text = f"kind: slurm\nnode_types:\n{types}partitions: {{batch: {{nodes: {{{nodes}}}}}}}\n"
    (batch,) = shape_of(text).partitions
    assert [group.prefix for group in batch.groups] == [
        "a-100-",
        "a-100-2-",
        "a-100-2-2-",
        "gr-e-",
        "ml-p5-48xlarge-",
        "x" * 40 + "-",
    ]


def test_the_machines_own_folders_stay_in_the_lab() -> None:
    shared = "{/p/scratch: gpfs, /home: nfs, /usr/local: nfs, /home/projects: nfs}"
    spec = lab_spec(shape_of(one_type("cpus: 8, scratch: /tmp", shared=shared)))
    assert spec.shared == ("/p/scratch", "/home/projects")
    assert {node.scratch for node in spec.nodes} == {"/scratch"}


def test_a_scratch_folder_belongs_to_its_nodes() -> None:
    spec = lab_spec(shape_of(one_type("cpus: 8, scratch: /local")))
    assert {node.scratch for node in spec.nodes} == {"/local"}


def test_srun_may_be_on_every_path() -> None:
    assert lab_spec(shape_of(one_type("cpus: 8"))).commands == ""
    commands = shape_of(one_type("cpus: 8", slurm_commands="/opt/site/bin")).commands
    assert commands == "/opt/site/bin"


def test_a_nodes_own_disk_hides_no_shared_folder() -> None:
    for shared in ("{/scratch: lustre}", "{/scratch/projects: lustre}"):
        spec = lab_spec(shape_of(one_type("cpus: 8, scratch: /tmp", shared=shared)))
        assert {node.scratch for node in spec.nodes} == {"/scratch-local"}
