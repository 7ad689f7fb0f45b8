"""The lab that tests share, and the shape of it. Any folder of tests may import `shared_lab`."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from clusterjobs.clusters.source import SlurmNodes, SlurmPartition
from clusterjobs.lab.lab import Lab, running_lab
from clusterjobs.lab.shape import LabSpec
from clusterjobs.lab.slurm import Slurm


def a100_nodes(static: int = 1, dynamic: int = 1) -> SlurmPartition:
    """The partition `train`, the default one, of p4d.24xlarge."""
    features = ("p4d.24xlarge", "p4d", "efa", "gpu")
    groups = (
        SlurmNodes(
            "train-st-p4d-", static, 96, 1120665, "gpu:a100:8", ("static", *features), 1, True
        ),
        SlurmNodes(
            "train-dy-p4d-", dynamic, 96, 1120665, "gpu:a100:8", ("dynamic", *features), 1000, False
        ),
    )
    kept = tuple(group for group in groups if group.count)
    return SlurmPartition("train", kept, exclusive=False, default=True)


def cpu_nodes(count: int = 1) -> SlurmPartition:
    """The exclusive partition `cpu`, without GPUs, whose scratch disk is elsewhere."""
    group = SlurmNodes(
        "cpu-dy-c5-",
        count,
        cpus=4,
        real_memory=8000,
        gres="",
        features=("dynamic", "c5"),
        weight=1000,
        static=False,
        scratch="/local/scratch",
    )
    return SlurmPartition("cpu", (group,), exclusive=True, default=False)


def spec_of(*partitions: SlurmPartition) -> LabSpec:
    return LabSpec("test", partitions, shared=("/fsx", "/opt/shared"))


def output_of(command: list[str], **options: object) -> str:
    """stdout of a command that must succeed."""
    done = subprocess.run(command, capture_output=True, text=True, **options)  # type: ignore[call-overload]
    assert done.returncode == 0, done.stderr
    return str(done.stdout)


@pytest.fixture(scope="session")
def shared_lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab with two A100 nodes and a CPU node, for tests that leave it as they found it."""
    with running_lab(spec_of(a100_nodes(), cpu_nodes()), _folder(tmp_path_factory), slurm) as lab:
        yield lab


@pytest.fixture(scope="module")
def own_lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """A lab of two A100 nodes that a module of tests may break."""
    with running_lab(spec_of(a100_nodes()), _folder(tmp_path_factory), slurm) as lab:
        yield lab


def _folder(factory: pytest.TempPathFactory) -> Path:
    return factory.mktemp("a lab with spaces")
