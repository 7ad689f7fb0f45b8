"""Which Slurm a cluster has, by the release of ParallelCluster that a site names."""

from __future__ import annotations

import pytest

from clusterjobs.clusters.parallelcluster import config as releases
from clusterjobs.clusters.parallelcluster.facts import cluster_facts
from clusterjobs.clusters.parallelcluster.source import read_cluster

CONFIG = """\
Scheduling:
  Scheduler: slurm
  SlurmQueues:
    - Name: train
      ComputeResources: [{Name: c5, InstanceType: c5.xlarge}]
"""


@pytest.mark.parametrize(
    ("site", "version"),
    [
        ({}, "25.11.8"),
        ({"parallelcluster": "3.16.1"}, "25.11.8"),
        ({"parallelcluster": "3.13.1"}, "24.05.8"),
        ({"parallelcluster": "3.5.0"}, "22.05.8"),
        ({"parallelcluster": "4.0.0"}, None),
        ({"parallelcluster": 3.13}, None),
        ({"parallelcluster": None}, None),
    ],
)
def test_a_cluster_has_the_slurm_of_its_release(
    site: dict[str, object], version: str | None
) -> None:
    cluster, _ = read_cluster(CONFIG, "a.yaml", site)
    assert cluster.slurm_version == version
    assert cluster_facts(cluster).slurm_version == version


def test_a_later_release_never_ships_an_older_slurm() -> None:
    def numbers(text: str) -> list[int]:
        return [int(part) for part in text.split(".")]

    rows = list(releases._SLURM.items())
    assert rows == sorted(rows, key=lambda row: numbers(row[0]))
    versions = [numbers(version) for _, version in rows if version]  # None: not in the table
    assert versions == sorted(versions)
    assert rows[-1][0] == releases.CURRENT
