"""A source of cluster facts that is no ParallelCluster config: nothing else has to know of it."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

import pytest

from clusterjobs.clusters.facts import (
    BucketLink,
    ClusterFacts,
    Mount,
    NodeGroup,
    NodeType,
    Partition,
)
from clusterjobs.errors import InputError
from clusterjobs.frameworks import option_models
from clusterjobs.runs.run import Run
from clusterjobs.sections.context import PointPlan
from clusterjobs.sections.order import resolve
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.render import Inputs
from clusterjobs.sites.folders import SiteFolders
from clusterjobs.spec.keys.sweep import Point
from clusterjobs.spec.load import LoadedSpec, load_spec

DGX = NodeType(
    "dgx-a100",
    cpus=256,
    memory_mib=1_000_000,
    gpus=8,
    gpu_model="A100",
    gpudirect_rdma=True,
    fabric="infiniband",
    fabric_interfaces=8,
    network_gbps=1600,
    local_disk_gb=14_000,
)
OLD = DGX._replace(name="dgx-1", gpus=4, cpus=80, gpu_model="V100")
FACTS = ClusterFacts(
    name="campus",
    partitions=(
        Partition(
            "gpu",
            (
                NodeGroup("a", DGX, ("dgx-a100",), 4, "infiniband", ("a100", "ib")),
                NodeGroup("v", OLD, ("dgx-1",), 2, "ethernet", ("v100", "old")),
            ),
            local_disk="/raid",
        ),
    ),
    mounts=(Mount("/gpfs", "nfs", "work"),),
    slurm_version="23.11.4",
)
SPEC = {
    "name": "a",
    "cluster": "campus",
    "instance_type": "dgx-a100",
    "nodes": 2,
    "framework": "torchrun",
    "script": "train.py",
    "workdir": "/gpfs/code",
    "logs": "/gpfs/logs",
    "preflight": True,
    "data": [{"source": "s3://corpus/books", "target": "/gpfs/books"}],
    "checkpoints": {"path": "/gpfs/saved", "export": "s3://corpus/saved"},
}


class Nothing(NamedTuple):
    """The cluster is as it is, and nothing is written for it."""

    files: Mapping[str, str] = MappingProxyType({})
    problems: tuple[()] = ()

    def notice(self, folder: pathlib.Path) -> str:
        return ""


class ByHand:
    facts = FACTS

    def fit(self, links: Sequence[BucketLink] = ()) -> Nothing:
        assert not links
        return Nothing()


def spec_of(**keys: object) -> LoadedSpec:
    text = json.dumps({key: item for key, item in {**SPEC, **keys}.items() if item is not None})
    return load_spec(text, "exp.yaml", option_models())


def plan_of(facts: ClusterFacts = FACTS, **keys: object) -> Plan:
    return resolve(spec_of(**keys), facts)


def test_a_job_is_planned_of_facts_alone() -> None:
    plan = plan_of()
    assert (plan.placement.partition, plan.placement.fabric) == ("gpu", "infiniband")
    assert (plan.placement.shape.world_size, plan.placement.cpus_per_rank) == (16, 32)
    directives = {one.name: one.value for one in plan.job.directives}
    assert directives["constraint"] == "a100"
    assert plan.job.title == "2 nodes x 8 GPUs (dgx-a100), torchrun started by its own launcher"
    assert not plan.warnings


def test_its_job_is_rendered_without_a_word_of_aws() -> None:
    inputs = Inputs(("exp.yaml", ""), ("campus", ""))
    point = PointPlan(Point(0, "tiny", "", {}), plan_of(), "")
    outputs = Run((spec_of(),), (point,), inputs, ByHand(), SiteFolders()).outputs()
    assert sorted(outputs) == ["job.sh", "manifest.json"]
    script = outputs["job.sh"].partition('\nmain "$@"\n')[0]  # programs for the nodes follow
    assert "#SBATCH --partition=gpu" in script
    assert "mount=/gpfs" in script
    for word in ("FI_PROVIDER", "LD_LIBRARY_PATH", "efa=", "lustre=", "FSx", "ParallelCluster"):
        assert word not in script


def test_without_a_service_that_links_them_buckets_are_copied() -> None:
    lustre = FACTS._replace(mounts=(Mount("/gpfs", "lustre"),))
    for facts in (FACTS, lustre):
        plan = plan_of(facts)
        assert plan.links == ()
        assert [one.linked for one in plan.staging.data] == [False]
        assert [one.target for one in plan.checkpoints.exports] == ["s3://corpus/saved"]
    plan = plan_of(lustre._replace(bucket_service="a service"))
    assert [link.folder for link in plan.links] == ["/gpfs/books", "/gpfs/saved"]
    assert plan.checkpoints.exports == ()


def test_a_fabric_that_the_nodes_have_and_the_group_lacks_is_a_warning() -> None:
    (warning,) = plan_of(instance_type="dgx-1").warnings
    assert warning.what == "queue gpu has no InfiniBand: 2 dgx-1 would use TCP"


def test_what_nobody_knows_is_asked_for_and_never_taken_for_nothing() -> None:
    group = NodeGroup("x", NodeType("x"))
    facts = FACTS._replace(partitions=(Partition("q", (group,)),))
    keys = {"instance_type": None, "preflight": {"bandwidth_percent": 50}, "nodes": 500}
    with pytest.raises(InputError) as caught:
        plan_of(facts, **keys)
    assert [one.path for one in caught.value.problems if not one.warning] == ["gpus_per_node"]
    plan = plan_of(facts, **keys, gpus_per_node=6)
    assert plan.placement.shape.world_size == 3000
    assert plan.placement.cpus_per_task is None
    assert plan.preflight
    assert plan.preflight.all_reduce
    assert plan.preflight.all_reduce.gbps == "0"


def test_a_constraint_keeps_to_the_chosen_groups_whatever_features_there_are() -> None:
    def constraint(*groups: tuple[str, str, tuple[str, ...]]) -> object:
        found = tuple(
            NodeGroup(name, DGX._replace(name=kind), (kind,), 9, "infiniband", features)
            for name, kind, features in groups
        )
        plan = plan_of(
            FACTS._replace(partitions=(Partition("gpu", found),)), instance_type="x", nodes=1
        )
        return {one.name: one.value for one in plan.job.directives}.get("constraint")

    assert constraint(("a", "x", ("fast", "one")), ("b", "x", ("fast", "two"))) is None
    other = ("c", "y", ("slow", "three"))
    assert constraint(("a", "x", ("fast", "one")), ("b", "x", ("fast", "two")), other) == "fast"
    other = ("c", "y", ("fast", "three"))
    assert constraint(("a", "x", ("fast", "one")), ("b", "x", ("fast", "two")), other) == "one|two"
