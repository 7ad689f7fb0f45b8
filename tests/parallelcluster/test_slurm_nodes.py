from __future__ import annotations

import pathlib

import pytest

from clusterjobs.clusters.parallelcluster.facts import slurm_partitions
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.clusters.source import SlurmNodes, SlurmPartition
from clusterjobs.errors import InputError


def partitions_of(queues: str, file: str = "c.yaml") -> tuple[SlurmPartition, ...]:
    cluster, document = read_cluster(f"Scheduling: {{SlurmQueues: [{queues}]}}", file, {})
    return slurm_partitions(cluster, document)


def group_of(resource: str) -> SlurmNodes:
    ((group,),) = [p.groups for p in partitions_of(f"{{Name: q, ComputeResources: [{resource}]}}")]
    return group


def node_line(group: SlurmNodes) -> str:
    """As ParallelCluster's generator writes it."""
    gres = f" Gres={group.gres}" if group.gres else ""
    return (
        f"NodeName={group.prefix}[1-{group.count}] CPUs={group.cpus} "
        f"RealMemory={group.real_memory} State=CLOUD Feature={','.join(group.features)} "
        f"Weight={group.weight}{gres}"
    )


# The first two lines were printed by ParallelCluster's own generator (config_renderer.py).
LINES = {
    "{Name: train, ComputeResources: [{Name: p3dn, InstanceType: p3dn.24xlarge, MaxCount: 8, "
    "DisableSimultaneousMultithreading: true, Efa: {Enabled: true}}]}": [
        "NodeName=train-dy-p3dn-[1-8] CPUs=48 RealMemory=747110 State=CLOUD "
        "Feature=dynamic,p3dn.24xlarge,p3dn,efa,gpu Weight=1000 Gres=gpu:v100:8"
    ],
    "{Name: a100, ComputeResources: [{Name: p4d, InstanceType: p4d.24xlarge, MinCount: 16, "
    "MaxCount: 16, Efa: {Enabled: true}}]}": [
        "NodeName=a100-st-p4d-[1-16] CPUs=96 RealMemory=1120665 State=CLOUD "
        "Feature=static,p4d.24xlarge,p4d,efa,gpu Weight=1 Gres=gpu:a100:8"
    ],
    "{Name: q, ComputeResources: [{Name: c, InstanceType: c6i.xlarge, MinCount: 1, MaxCount: 3}, "
    "{Name: none, InstanceType: t3.micro, MaxCount: 0}]}": [
        "NodeName=q-st-c-[1-1] CPUs=4 RealMemory=7782 State=CLOUD "
        "Feature=static,c6i.xlarge,c Weight=1",
        "NodeName=q-dy-c-[1-2] CPUs=4 RealMemory=7782 State=CLOUD "
        "Feature=dynamic,c6i.xlarge,c Weight=1000",
    ],
    "{Name: q, ComputeResources: [{Name: e, InstanceType: g7e.48xlarge, MaxCount: 2}]}": [
        "NodeName=q-dy-e-[1-2] CPUs=192 RealMemory=1992294 State=CLOUD "
        "Feature=dynamic,g7e.48xlarge,e,gpu Weight=1000 Gres=gpu:rtxproserver6000:8"
    ],
}


@pytest.mark.parametrize("queue", LINES)
def test_nodes_are_those_of_parallelcluster(queue: str) -> None:
    (partition,) = partitions_of(queue)
    assert [node_line(group) for group in partition.groups] == LINES[queue]


def test_several_instance_types_give_the_smallest_of_each_number() -> None:
    group = group_of(
        "{Name: mixed, MaxCount: 2, DisableSimultaneousMultithreading: true, "
        "Instances: [{InstanceType: g5.48xlarge}, {InstanceType: g4dn.12xlarge}]}"
    )
    assert (group.cpus, group.gres) == (24, "gpu:t4:4")
    assert group.real_memory == int(196608 * 0.95)
    assert group.features == ("dynamic", "mixed", "gpu")


def test_one_type_without_gpus_means_no_gpus() -> None:
    group = group_of(
        "{Name: m, MaxCount: 2, Instances: [{InstanceType: g5.48xlarge}, {InstanceType: t3.micro}]}"
    )
    assert group.gres == ""
    assert "gpu" not in group.features


def test_a_fraction_of_a_gpu_is_no_gpu() -> None:
    assert group_of("{Name: f, MaxCount: 2, InstanceType: g6f.large}").gres == ""


def test_schedulable_memory_goes_before_the_ratio() -> None:
    assert group_of("{Name: a, InstanceType: t3.micro, SchedulableMemory: 900}").real_memory == 900


def test_types_without_threads_keep_their_cpus() -> None:
    group = group_of(
        "{Name: a, InstanceType: hpc7g.16xlarge, DisableSimultaneousMultithreading: true}"
    )
    assert group.cpus == 64


def test_priorities_become_weights() -> None:
    ((both,),) = [
        [
            p.groups
            for p in partitions_of(
                "{Name: q, ComputeResources: [{Name: a, InstanceType: t3.micro, MinCount: 1, "
                "StaticNodePriority: 7, DynamicNodePriority: 70}]}"
            )
        ]
    ]
    assert [(group.static, group.weight, group.count) for group in both] == [
        (True, 7, 1),
        (False, 70, 9),
    ]


def test_first_queue_is_the_default_partition() -> None:
    resource = "ComputeResources: [{Name: a, InstanceType: t3.micro}]"
    first, second = partitions_of(
        f"{{Name: a, {resource}}}, {{Name: b, JobExclusiveAllocation: true, {resource}}}"
    )
    assert (first.name, first.default, first.exclusive) == ("a", True, False)
    assert (second.name, second.default, second.exclusive) == ("b", False, True)


def test_node_names_and_hostlist_agree() -> None:
    group = group_of("{Name: a, InstanceType: t3.micro, MaxCount: 3}")
    assert group.hostlist == "q-dy-a-[1-3]"
    assert group.names == ("q-dy-a-1", "q-dy-a-2", "q-dy-a-3")
    one = group_of("{Name: a, InstanceType: t3.micro, MaxCount: 1}")
    assert (one.hostlist, one.names) == ("q-dy-a-1", ("q-dy-a-1",))


def test_everything_unknown_is_said_at_once_with_positions() -> None:
    with pytest.raises(InputError) as caught:
        partitions_of(
            "\n {Name: $(q), ComputeResources: [\n  {Name: a, InstanceType: p4d.24xlarg},\n"
            "  {Name: <b>, InstanceType: <t>, MaxCount: <n>}]}"
        )
    assert [(p.what, p.where and p.where.line) for p in caught.value.problems] == [
        ("$(q) was not filled in", 2),
        ("p4d.24xlarg is not in the catalogue", 3),
        ("the compute resource's name is not known", 4),
        ("the number of nodes is not known", 4),
        ("<t> was not filled in", 4),
    ]
    assert caught.value.problems[1].hint == "did you mean p4d.24xlarge?"


def test_a_wholly_new_instance_type_is_for_the_catalogue() -> None:
    with pytest.raises(InputError) as caught:
        group_of("{Name: a, InstanceType: zz99.metal-480xl}")
    assert "clusterjobs.catalog.refresh" in caught.value.problems[0].hint


def test_unknown_queue_does_not_stop_reading() -> None:
    cluster, _ = read_cluster("Scheduling: {SlurmQueues: [{Name: <q>}]}", "c.yaml", {})
    assert [queue.name for queue in cluster.queues] == [""]
    with pytest.raises(InputError):
        slurm_partitions(cluster)


def test_slurm_conf_needs_no_more_than_the_file(tmp_path: pathlib.Path) -> None:
    assert partitions_of("{Name: q}") == (SlurmPartition("q", (), exclusive=False, default=True),)
