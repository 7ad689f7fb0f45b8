"""A two-node lab shaped like the cluster `small`, for jobs rendered from specs."""

from __future__ import annotations

import pathlib
import sys
from collections.abc import Iterator

import pytest
from rendered_jobs import Jobs, shape_of

from clusterjobs.lab.lab import Lab, running_lab
from clusterjobs.lab.slurm import Slurm

TESTS = pathlib.Path(__file__).parents[1]
sys.path += [str(TESTS / folder) for folder in ("frameworks", "plan")]  # asked.py, spec_rows.py


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with running_lab(shape_of("small"), tmp_path_factory.mktemp("small"), slurm) as running:
        yield running


@pytest.fixture
def jobs(lab: Lab, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Jobs:
    config = tmp_path / "config" / "clusterjobs"
    config.mkdir(parents=True)
    site = pathlib.Path(__file__).parents[2] / "examples" / "site.yaml"
    (config / "site.yaml").write_text(site.read_text())
    monkeypatch.setenv("XDG_CONFIG_HOME", str(config.parent))
    return Jobs(lab, tmp_path)
