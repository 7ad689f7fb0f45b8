"""Jobs that share a node, `sbatch: {exclusive: false}`: Slurm counts its GPUs and CPUs."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from rendered_jobs import Jobs, shape_of_text

from clusterjobs import resources
from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.slurm import Slurm

pytestmark = pytest.mark.lab

# Each job ends once both are running.
RECORD = """
mkdir -p /fsx/shared
printf '{"node": "%s", "gpus": "%s", "port": %s, "cpus": %s}' \\
  "$SLURMD_NODENAME" "$CUDA_VISIBLE_DEVICES" "$MASTER_PORT" "$SLURM_CPUS_PER_TASK" \\
  > "/fsx/shared/$1.new"
mv "/fsx/shared/$1.new" "/fsx/shared/$1.json"
until [[ -e /fsx/shared/first.json && -e /fsx/shared/second.json ]]; do sleep 0.1; done
"""


@pytest.fixture(scope="module")
def config() -> str:
    """A cluster whose queue shares its nodes, each with 8 GPUs."""
    text = (resources.cluster_configs_dir() / "p4d-a100.yaml").read_text(encoding="utf-8")
    return text.replace("JobExclusiveAllocation: true", "JobExclusiveAllocation: false")


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory, config: str) -> Iterator[Lab]:
    shape = shape_of_text(config, "shared.yaml", nodes=1)
    with running_lab(shape, tmp_path_factory.mktemp("shared"), slurm) as running:
        yield running


def test_two_jobs_on_one_node_have_different_gpus(jobs: Jobs, config: str) -> None:
    (jobs.folder / "shared.yaml").write_text(config, encoding="utf-8")
    ids = [submit(jobs, name) for name in ("first", "second")]
    assert [jobs.lab.wait(one, 120).exit_code for one in ids] == [0, 0]
    first, second = record(jobs, "first"), record(jobs, "second")
    assert first["node"] == second["node"] == "train-dy-p4d-1"
    gpus = first["gpus"].split(",") + second["gpus"].split(",")
    assert sorted(gpus) == list("01234567")
    assert first["port"] != second["port"]
    assert first["cpus"] == second["cpus"] == 48
    until(lambda: "idle" in jobs.lab.run(["sinfo", "--noheader"]).stdout, 120, lambda: "not idle")


def submit(jobs: Jobs, name: str) -> str:
    spec = jobs.spec(
        name,
        cluster=str(jobs.folder / "shared.yaml"),
        nodes=1,
        gpus_per_node=4,
        ranks_per_node=1,
        framework="command",
        command=["bash", "-c", RECORD, "record", name],
        sbatch={"exclusive": False},
    )
    return jobs.submit(jobs.render(spec))


def record(jobs: Jobs, name: str) -> dict[str, Any]:
    file: pathlib.Path = jobs.lab.folder.shared("/fsx") / "shared" / f"{name}.json"
    found: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return found


# Each point ends once all points of both packs are running.
MEET = """
mkdir -p /fsx/packs
echo "$CUDA_VISIBLE_DEVICES $MASTER_PORT" > "/fsx/packs/$NUMBER.new"
mv "/fsx/packs/$NUMBER.new" "/fsx/packs/$NUMBER"
until (( $(ls /fsx/packs | grep -vc new) == 8 )); do sleep 0.1; done
"""


def test_two_packs_of_points_share_a_node(jobs: Jobs, config: str) -> None:
    (jobs.folder / "shared.yaml").write_text(config, encoding="utf-8")
    spec = {
        "name": "packs",
        "cluster": str(jobs.folder / "shared.yaml"),
        "gpus_per_node": 1,
        "framework": "command",
        "command": ["bash", "-c", MEET],
        "env": {"NUMBER": "0"},
        "logs": "/fsx/logs",
        "sbatch": {"exclusive": False},
        "sweep": {"grid": {"env.NUMBER": [str(one) for one in range(8)]}, "per_node": 4},
    }
    array = jobs.submit(jobs.render(spec))
    assert [jobs.lab.wait(f"{array}_{task}", 120).exit_code for task in (0, 1)] == [0, 0]
    folder = jobs.lab.folder.shared("/fsx") / "packs"
    seen = [(folder / str(number)).read_text().split() for number in range(8)]
    assert sorted(gpu for gpu, _ in seen) == list("01234567")
    assert len({port for _, port in seen}) == 8
