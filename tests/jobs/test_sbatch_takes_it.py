"""Slurm's own word on the directives of every case: a controller of the real size, no nodes."""

from __future__ import annotations

import pathlib
from collections.abc import Callable, Iterator

import goldens
import pytest
import yaml

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.config import Cluster
from clusterjobs.clusters.parallelcluster.facts import slurm_shape
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.lab.lab import Lab, running_lab
from clusterjobs.lab.shape import lab_spec

pytestmark = pytest.mark.lab

CLUSTERS = ("p3dn-v100", "p4d-a100", "p5-h100", "trn1.yaml")
NODES = 512


def grown(cluster: Cluster) -> Cluster:
    """The same cluster with hundreds of nodes in each compute resource."""
    queues = (
        queue._replace(
            compute_resources=tuple(
                resource._replace(max_count=NODES) for resource in queue.compute_resources
            )
        )
        for queue in cluster.queues
    )
    return cluster._replace(queues=tuple(queues))


@pytest.fixture(scope="module", params=CLUSTERS)
def controller(request, slurm, tmp_path_factory) -> Iterator[tuple[str, Lab]]:
    name = request.param
    if name == "trn1.yaml":
        text = goldens.cases()["trainium"].files[name].text
    else:
        text = (resources.cluster_configs_dir() / f"{name}.yaml").read_text(encoding="utf-8")
    facts, _ = read_cluster(text, name, {})
    shape = lab_spec(slurm_shape(grown(facts)), controller_only=True)
    with running_lab(shape, tmp_path_factory.mktemp(name), slurm) as lab:
        yield name, lab


def rendered(
    clusterjobs: Callable[..., object], cluster: str, folder: pathlib.Path
) -> list[pathlib.Path]:
    """The scripts of all cases for this cluster."""
    for name, case in goldens.cases().items():
        (folder / name).mkdir()
        spec = goldens.spec(case, folder / name)
        if yaml.safe_load(spec.read_text(encoding="utf-8")).get("cluster") == cluster:
            assert clusterjobs("render", spec, "-o", folder / name / "out").code == 0
    return sorted(folder.glob("*/out/job*.sh"))


def test_sbatch_takes_the_directives_of_every_case(controller, clusterjobs, tmp_path) -> None:
    cluster, lab = controller
    scripts = rendered(clusterjobs, cluster, tmp_path)
    assert scripts
    for script in scripts:
        said = lab.run(["sbatch", "--test-only", str(script)])
        assert said.returncode == 0, f"{script}: {said.stderr}"
        assert "in partition train" in said.stderr


def test_sbatch_refuses_what_the_cluster_has_not(controller, clusterjobs, tmp_path) -> None:
    cluster, lab = controller
    text = rendered(clusterjobs, cluster, tmp_path)[0].read_text()
    for directive in (f"--nodes={NODES + 1}", "--partition=nope", "--gpus-per-node=9"):
        name = directive.partition("=")[0]
        kept = [line for line in text.splitlines() if not line.startswith(f"#SBATCH {name}=")]
        kept.insert(1, f"#SBATCH {directive}")
        script = tmp_path / "job.sh"
        script.write_text("\n".join(kept) + "\n")
        assert lab.run(["sbatch", "--test-only", str(script)]).returncode != 0, directive
