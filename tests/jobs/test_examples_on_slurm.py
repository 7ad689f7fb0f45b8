"""Slurm's own word on the directives of the examples: a controller of that size, no nodes."""

from __future__ import annotations

import pathlib

import pytest
import yaml

from clusterjobs import resources
from clusterjobs.clusters.described.source import DescriptionSource
from clusterjobs.lab.lab import running_lab
from clusterjobs.lab.shape import lab_spec

pytestmark = pytest.mark.lab

ROOT = pathlib.Path(__file__).parents[2]
SPECS = sorted([*ROOT.glob("examples/slurm/*.yaml"), ROOT / "examples" / "gpt-neox-2node-gcp.yaml"])


@pytest.mark.parametrize("spec", SPECS, ids=lambda spec: spec.stem)
def test_sbatch_takes_the_directives_of_an_example(spec, clusterjobs, slurm, tmp_path) -> None:
    name = yaml.safe_load(spec.read_text())["cluster"]
    file = spec.parent / name if "/" in name else resources.cluster_configs_dir() / f"{name}.yaml"
    shape = DescriptionSource(file.read_text(), file.name).shape()
    assert clusterjobs("render", spec, "-o", tmp_path / "out").code == 0
    with running_lab(lab_spec(shape, controller_only=True), tmp_path / "lab", slurm) as lab:
        said = lab.run(["sbatch", "--test-only", str(tmp_path / "out" / "job.sh")])
    assert said.returncode == 0, said.stderr
    partition = next(iter(shape.partitions)).name
    assert f"in partition {partition}" in said.stderr
