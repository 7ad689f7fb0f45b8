"""Rendered jobs on the versions of Slurm that are not this machine's: the few tests that say most.

`make test-slurm` runs all tests of the lab and of jobs on each version.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import test_launch_contract
import test_restarts
from rendered_jobs import Jobs, shape_of
from slurm_versions import slurm_or_skip

from clusterjobs.lab.breakage import kill_node, start_node
from clusterjobs.lab.lab import Lab, running_lab
from clusterjobs.lab.slurm import OWN, SUITES, suite_version

pytestmark = pytest.mark.lab

OTHERS = [version for version in SUITES if version != suite_version()]


@pytest.fixture(scope="module", params=OTHERS)
def lab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    if request.config.getoption("slurm") != OWN:
        pytest.skip("--slurm has chosen a version for all tests")
    slurm = slurm_or_skip(request.param)
    assert slurm.name.startswith(f"{request.param}.")
    with running_lab(shape_of("small"), tmp_path_factory.mktemp("other"), slurm) as running:
        yield running


@pytest.mark.parametrize(
    ("framework", "launcher"),
    [("torchrun", "srun"), ("torchrun", "torchrun"), ("deepspeed", "deepspeed")],
)
def test_ranks_know_who_and_where_they_are(jobs: Jobs, framework: str, launcher: str) -> None:
    test_launch_contract.test_ranks_know_who_and_where_they_are(jobs, framework, launcher)


def test_a_job_that_is_told_of_its_limit_saves_and_is_requeued(jobs: Jobs) -> None:
    test_restarts.test_each_launcher_passes_the_word_on(jobs, "srun")


def test_a_node_without_power_comes_back(lab: Lab) -> None:
    node = lab.facts.nodes[0]
    kill_node(lab, node, "power")
    start_node(lab, node)
    assert lab.run(["srun", "-w", node, "hostname"]).stdout == f"{node}\n"
