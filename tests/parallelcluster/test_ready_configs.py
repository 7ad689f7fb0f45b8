from __future__ import annotations

import pathlib
import re
from typing import Any

import pytest
import yaml

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.config import Cluster
from clusterjobs.clusters.parallelcluster.facts import cluster_facts, slurm_partitions
from clusterjobs.clusters.parallelcluster.render_config import fit
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.clusters.source import is_description
from clusterjobs.errors import InputError
from clusterjobs.validation.default_account import default_account
from clusterjobs.validation.schema import check_config

SITE: dict[str, object] = {
    "region": "us-east-1",
    "public_subnet": "subnet-0a1b2c3d4e5f60001",
    "private_subnet": "subnet-0a1b2c3d4e5f60002",
    "key_name": "lab",
    "custom_ami": "ami-0a1b2c3d4e5f60001",
    "bucket": "lab-data",
    "capacity_reservation": "cr-0a1b2c3d4e5f60001",
}
READY = sorted(
    path
    for path in resources.cluster_configs_dir().glob("*.yaml")
    if not is_description(path.read_text())
)

# What `sinfo` shows on each: nodes, CPUs, gres.
SHAPES = {
    "p3dn-v100": ("train-dy-p3dn-[1-8]", 48, "gpu:v100:8"),
    "p4d-a100": ("train-dy-p4d-[1-16]", 96, "gpu:a100:8"),
    "p4de-a100": ("train-dy-p4de-[1-16]", 96, "gpu:a100:8"),
    "p5-h100": ("train-dy-p5-[1-64]", 192, "gpu:h100:8"),
    "p5-h100-capacity-block": ("train-st-p5-[1-16]", 192, "gpu:h100:8"),
    "small": ("train-dy-small-[1-2]", 4, ""),
}

each_ready_config = pytest.mark.parametrize("path", READY, ids=lambda path: path.stem)


def read(path: pathlib.Path) -> tuple[Cluster, str]:
    cluster, document = read_cluster(path.read_text(), path.name, SITE)
    return cluster, fit(document, SITE).text


def test_no_ready_config_is_without_a_test() -> None:
    assert {path.stem for path in READY} == SHAPES.keys()


@each_ready_config
def test_ready_config_has_its_shape_even_without_a_site(path: pathlib.Path) -> None:
    cluster, _ = read_cluster(path.read_text(), path.name, {})
    ((group,),) = (partition.groups for partition in slurm_partitions(cluster))
    assert (group.hostlist, group.cpus, group.gres) == SHAPES[path.stem]
    assert ("efa" in group.features) == (path.stem != "small")
    assert [mount.directory for mount in cluster.mounts] == ["/fsx"]
    assert cluster.queues[0].job_exclusive


@pytest.mark.parametrize(
    ("name", "gib"), [("p4d-a100", 40), ("p5-h100", 80), ("p3dn-v100", 32), ("small", None)]
)
def test_facts_have_the_memory_of_a_gpu(name: str, gib: float | None) -> None:
    path = resources.cluster_configs_dir() / f"{name}.yaml"
    cluster, _ = read_cluster(path.read_text(), path.name, {})
    (group,) = cluster_facts(cluster).partitions[0].node_groups
    assert group.node_type.gpu_memory_gib == gib


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
        fit(document, {})
    (problem,) = caught.value.problems
    used = set(re.findall(r"site\.(\w+)", problem.what))
    named = re.search(r"from your site.yaml:([\w, #\n]+)\.", text)
    assert named
    assert set(re.findall(r"\w+", named[1])) == used <= SITE.keys()


# ------------------------------------------------------------------ ParallelCluster's own view


def load_theirs(text: str) -> Any:
    from clusterjobs.validation import offline, optional_deps, schema

    data = yaml.safe_load(text)
    with optional_deps.quiet(), offline.simulated_account(default_account(data)):
        config, findings = schema.load(data)
    assert not findings
    return config


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
@each_ready_config
def test_reading_agrees_with_parallelclusters_own_objects(path: pathlib.Path) -> None:
    pytest.importorskip("moto")
    pytest.importorskip("pcluster")
    cluster, text = read(path)
    (queue,) = load_theirs(text).scheduling.queues
    assert queue.name == cluster.queues[0].name
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


@pytest.mark.aws
@pytest.mark.filterwarnings("ignore")
@each_ready_config
def test_ready_config_passes_all_checks_and_parallelclusters_own(path: pathlib.Path) -> None:
    """Nothing is said but what the comments explain: whether data outlives the cluster."""
    pytest.importorskip("moto")
    pytest.importorskip("pcluster")
    report = check_config(yaml.safe_load(read(path)[1]))
    assert report.validators_ran
    assert [(f.level, f.validator) for f in report.findings] == [
        ("info", "DeletionPolicyValidator")
    ]
