from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml
from aws_stand_in import SITE, account, schema_only

from clusterjobs import resources
from clusterjobs.cluster.facts import Cluster
from clusterjobs.cluster.fit import fit_cluster
from clusterjobs.cluster.read import read_cluster
from clusterjobs.cluster.slurm_nodes import slurm_partitions
from clusterjobs.errors import InputError

READY = sorted(resources.cluster_configs_dir().glob("*.yaml"))

# What `sinfo` shows on each: nodes, CPUs, gres.
SHAPES = {
    "p3dn-v100": ("train-dy-p3dn-[1-8]", 48, "gpu:v100:8"),
    "p4d-a100": ("train-dy-p4d-[1-16]", 96, "gpu:a100:8"),
    "p4de-a100": ("train-dy-p4de-[1-16]", 96, "gpu:a100:8"),
    "p5-h100": ("train-dy-p5-[1-64]", 192, "gpu:h100:8"),
    "small": ("train-dy-small-[1-2]", 4, ""),
}

each_ready_config = pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)


def read(path: pathlib.Path) -> tuple[Cluster, str]:
    cluster, document = read_cluster(path.read_text(), path.name, SITE)
    return cluster, fit_cluster(document, SITE)


def test_no_ready_config_is_without_a_test() -> None:
    assert [path.stem for path in READY] == sorted(SHAPES)


@each_ready_config
def test_ready_config_has_its_shape_even_without_a_site(path: pathlib.Path) -> None:
    cluster, _ = read_cluster(path.read_text(), path.name, {})
    ((group,),) = (partition.groups for partition in slurm_partitions(cluster))
    assert (group.hostlist, group.cpus, group.gres) == SHAPES[path.stem]
    assert ("efa" in group.features) == (path.stem != "small")
    assert [mount.directory for mount in cluster.mounts] == ["/fsx"]
    assert cluster.queues[0].job_exclusive


@each_ready_config
def test_ready_config_is_pleasant_to_read(path: pathlib.Path) -> None:
    text = path.read_text()
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("#") >= 8
    assert "\t" not in text


@each_ready_config
def test_ready_config_names_the_site_values_it_uses(path: pathlib.Path) -> None:
    text = path.read_text()
    _, document = read_cluster(text, path.name, {})
    with pytest.raises(InputError) as caught:
        fit_cluster(document, {})
    used = {problem.what.split()[0].removeprefix("site.") for problem in caught.value.problems}
    named = re.search(r"from your site.yaml: ([\w, ]+)\.", text)
    assert named
    assert set(named[1].split(", ")) == used <= SITE.keys()


# ------------------------------------------------------------------ ParallelCluster's own view


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
@each_ready_config
def test_ready_config_loads_in_parallelclusters_schema(path: pathlib.Path) -> None:
    pytest.importorskip("pcluster")
    from pcluster.schemas.cluster_schema import ClusterSchema

    cluster, text = read(path)
    with schema_only():
        config = ClusterSchema(cluster_name="c").load(yaml.safe_load(text))
    (queue,) = config.scheduling.queues
    assert queue.name == cluster.queues[0].name
    assert_same_facts(queue, cluster)


def assert_same_facts(queue: Any, cluster: Cluster) -> None:
    """Our reading against ParallelCluster's own objects."""
    (theirs,), (ours,) = queue.compute_resources, cluster.queues[0].compute_resources
    assert (theirs.min_count, theirs.max_count) == (ours.min_count, ours.max_count)
    assert tuple(theirs.instance_types) == ours.instance_types
    assert theirs.efa.enabled == ours.efa
    assert theirs.disable_simultaneous_multithreading == ours.disable_smt
    assert (theirs.static_node_priority, theirs.dynamic_node_priority) == (
        ours.static_weight,
        ours.dynamic_weight,
    )
    assert queue.job_exclusive_allocation == cluster.queues[0].job_exclusive
    assert tuple(queue.networking.subnet_ids) == cluster.queues[0].subnet_ids


def findings(text: str) -> list[tuple[str, str]]:
    from pcluster.schemas.cluster_schema import ClusterSchema
    from pcluster.validators.common import ValidatorContext

    config = ClusterSchema(cluster_name="c").load(yaml.safe_load(text))
    return [(f.level.name, f.validator_type) for f in config.validate(context=ValidatorContext())]


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
@each_ready_config
def test_ready_config_passes_parallelclusters_validators(path: pathlib.Path) -> None:
    pytest.importorskip("moto")
    pytest.importorskip("pcluster")
    _, text = read(path)
    with account():
        assert findings(text) == [("INFO", "DeletionPolicyValidator")]


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
def test_p3dn_with_an_official_image_is_refused() -> None:
    """The reason for the custom image in p3dn-v100.yaml, and a proof that validators do run."""
    pytest.importorskip("moto")
    pytest.importorskip("pcluster")
    _, text = read(resources.cluster_configs_dir() / "p3dn-v100.yaml")
    with account(ami_description="AWS ParallelCluster AMI for ubuntu2204"):
        assert ("ERROR", "InstanceTypeBaseAMICompatibleValidator") in findings(text)
