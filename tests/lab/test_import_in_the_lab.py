"""`clusters import` on a real Slurm: the facts are those of the cluster that the lab was made of.

Here every node is a cloud node that is powered down. `make test-slurm` runs this on all versions.
"""

from __future__ import annotations

import pathlib

import pytest
from cluster_shapes import CONFIGS, SHAPES
from imported_facts import facts_of, imported, planned_facts, source_of
from slurm_versions import slurm_or_skip

from clusterjobs.lab.lab import running_lab
from clusterjobs.lab.shape import lab_spec
from clusterjobs.lab.slurm import OWN, SUITES, Slurm, suite_version

pytestmark = pytest.mark.lab

IN_MAKE_TEST = ("four-queues-and-limits", "partitions-over-the-same-nodes", "mixed")
OTHERS = [version for version in SUITES if version != suite_version()]


def check(name: str, slurm: Slurm, folder: pathlib.Path) -> None:
    source = source_of(SHAPES[name])
    spec = lab_spec(source.shape(), controller_only=True)
    with running_lab(spec, folder, slurm) as lab:
        text = imported(lab)
    found = source_of(text)
    assert facts_of(found.shape()) == facts_of(source.shape()), text
    assert found.facts.slurm_version == slurm.name
    if name in CONFIGS:
        assert planned_facts(found.facts) == planned_facts(source.facts), text


@pytest.mark.parametrize("name", IN_MAKE_TEST)
def test_an_import_has_the_facts_of_the_cluster(
    name: str, slurm: Slurm, tmp_path: pathlib.Path
) -> None:
    check(name, slurm, tmp_path)


@pytest.mark.faults
@pytest.mark.parametrize("name", sorted(set(SHAPES) - set(IN_MAKE_TEST)))
def test_an_import_has_the_facts_of_clusters_of_all_shapes(
    name: str, slurm: Slurm, tmp_path: pathlib.Path
) -> None:
    check(name, slurm, tmp_path)


@pytest.mark.parametrize("version", OTHERS)
def test_an_import_has_the_facts_on_other_versions(
    version: str, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("slurm") != OWN:
        pytest.skip("--slurm has chosen a version for all tests")
    check("four-queues-and-limits", slurm_or_skip(version), tmp_path)


@pytest.mark.faults
@pytest.mark.parametrize("name", sorted(SHAPES))
@pytest.mark.parametrize("version", OTHERS)
def test_an_import_has_the_facts_of_all_shapes_on_other_versions(
    name: str, version: str, tmp_path: pathlib.Path, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("slurm") != OWN:
        pytest.skip("--slurm has chosen a version for all tests")
    check(name, slurm_or_skip(version), tmp_path)
