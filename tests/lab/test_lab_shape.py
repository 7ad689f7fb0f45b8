from __future__ import annotations

from pathlib import Path

import pytest
from lab_fixtures import a100_nodes, cpu_nodes, spec_of

from clusterjobs.clusters.parallelcluster.facts import slurm_shape
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.clusters.source import SlurmPartition, SlurmShape, find_cluster
from clusterjobs.errors import InputError
from clusterjobs.lab.selection import small_queue_notices
from clusterjobs.lab.shape import LabSpec, cgroup_conf, gres_conf, hosts, lab_spec, slurm_conf

V22 = (22, 5, 8)


def spec_for(name: str, **options: object) -> LabSpec:
    file = find_cluster(name, Path.cwd())
    cluster, document = read_cluster(file.read_text(), str(file), {})
    return lab_spec(slurm_shape(cluster, document), **options)  # type: ignore[arg-type]


def test_a_ready_config_gives_two_nodes_a_queue_under_their_names_on_aws() -> None:
    spec = spec_for("p4d-a100")
    assert [node.name for node in spec.nodes] == ["train-dy-p4d-1", "train-dy-p4d-2"]
    assert spec.shared == ("/fsx",)


def test_static_nodes_come_first_as_slurm_would_choose_them() -> None:
    (queue,) = lab_spec_of(a100_nodes(static=2, dynamic=8), nodes=3).partitions
    assert [(group.prefix, group.count) for group in queue.groups] == [
        ("train-st-p4d-", 2),
        ("train-dy-p4d-", 1),
    ]


def lab_spec_of(*partitions: SlurmPartition, nodes: int = 2, queue: str | None = None) -> LabSpec:
    return lab_spec(SlurmShape("test", partitions), nodes, queue)


def test_the_limit_holds_for_each_queue_by_itself() -> None:
    spec = lab_spec_of(a100_nodes(dynamic=8), cpu_nodes(8), nodes=2)
    names = ["train-st-p4d-1", "train-dy-p4d-1", "cpu-dy-c5-1", "cpu-dy-c5-2"]
    assert [node.name for node in spec.nodes] == names


def test_a_queue_that_has_fewer_nodes_than_were_asked_for_is_named() -> None:
    spec = lab_spec_of(a100_nodes(static=2, dynamic=1), cpu_nodes(8), nodes=8)
    (said,) = small_queue_notices(spec, 8)
    assert said.startswith("queue train has only 3 of 8 nodes, because of its nodes: to get")
    assert not list(small_queue_notices(spec, 3))
    controller = spec_for("p4d-a100", nodes_per_queue=400, controller_only=True)
    assert not list(small_queue_notices(controller, 400))


def test_one_queue_alone_becomes_the_default() -> None:
    (queue,) = lab_spec_of(a100_nodes(), cpu_nodes(), queue="cpu").partitions
    assert (queue.name, queue.default) == ("cpu", True)


def test_an_unknown_queue_is_named_with_the_nearest() -> None:
    with pytest.raises(InputError) as error:
        lab_spec_of(a100_nodes(), queue="trian")
    assert error.value.problems[0].hint == "did you mean train?"


def test_a_controller_alone_keeps_every_node_of_the_cluster() -> None:
    spec = spec_for("p4d-a100", controller_only=True)
    assert sum(group.count for part in spec.partitions for group in part.groups) > 2
    assert spec.nodes == ()
    assert "State=CLOUD" in slurm_conf(spec, "me", None, 1, V22)


def test_300_nodes_have_300_addresses_and_names() -> None:
    lines = hosts(spec_of(a100_nodes(static=0, dynamic=300))).splitlines()
    addresses = {line.split()[0] for line in lines}
    assert len(addresses) == len(lines) == 603  # each node's also as an IPv6 socket calls it
    assert "10.77.1.44 train-dy-p4d-300" in lines
    assert "::ffff:10.77.1.44 train-dy-p4d-300" in lines


def test_slurm_conf_says_what_parallelcluster_says_of_a_queue() -> None:
    lines = slurm_conf(spec_of(a100_nodes(1, 2), cpu_nodes()), "me", None, 1, V22).splitlines()
    assert lines[-5:] == [
        "NodeName=train-st-p4d-1 NodeAddr=10.77.0.1 State=UNKNOWN CPUs=96 RealMemory=1120665 "
        "Gres=gpu:a100:8 Feature=static,p4d.24xlarge,p4d,efa,gpu Weight=1",
        "NodeName=train-dy-p4d-[1-2] NodeAddr=10.77.0.2,10.77.0.3 State=UNKNOWN CPUs=96 "
        "RealMemory=1120665 Gres=gpu:a100:8 Feature=dynamic,p4d.24xlarge,p4d,efa,gpu Weight=1000",
        "NodeName=cpu-dy-c5-1 NodeAddr=10.77.0.4 State=UNKNOWN CPUs=4 RealMemory=8000 "
        "Feature=dynamic,c5 Weight=1000",
        "PartitionName=train Nodes=train-st-p4d-1,train-dy-p4d-[1-2] Default=YES "
        "MaxTime=INFINITE State=UP",
        "PartitionName=cpu Nodes=cpu-dy-c5-1 Default=NO MaxTime=INFINITE State=UP "
        "OverSubscribe=EXCLUSIVE",
    ]


def test_gres_are_typed_and_only_where_there_are_gpus() -> None:
    assert gres_conf(spec_of(a100_nodes(0, 2), cpu_nodes())) == (
        "NodeName=train-dy-p4d-[1-2] Name=gpu Type=a100 File=/.lab/dev/nvidia[0-7]\n"
    )
    assert "GresTypes" not in slurm_conf(spec_of(cpu_nodes()), "me", None, 1, V22)


def test_memory_is_scheduled_only_where_the_config_says_so() -> None:
    assert "SelectTypeParameters=CR_CPU\n" in slurm_conf(spec_of(cpu_nodes()), "me", None, 1, V22)


def test_cgroups_are_switched_off_as_each_slurm_version_knows_how() -> None:
    assert cgroup_conf(V22) == cgroup_conf((23, 11, 10)) == "CgroupPlugin=cgroup/v1\n"
    assert cgroup_conf((24, 11, 5)) == "CgroupPlugin=disabled\n"


@pytest.mark.parametrize(
    ("version", "seconds"),
    [
        ((22, 5, 8), 3),
        ((23, 11, 0), 40),
        ((24, 11, 5), 40),
        ((24, 11, 6), 3),
        ((26, 5, 5), 3),
    ],
)
def test_versions_that_note_answers_late_wait_longer_for_them(
    version: tuple[int, int, int], seconds: int
) -> None:
    conf = slurm_conf(spec_of(cpu_nodes()), "me", None, 1, version)
    assert f"SlurmdTimeout={seconds}\n" in conf
