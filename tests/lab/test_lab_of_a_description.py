"""`lab up` of a described cluster: its partitions, limits and GPUs, and a job of a spec on it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from imported_facts import facts_of, source_of
from lab_fixtures import output_of

from clusterjobs.lab.slurm import Slurm, cache_dir

pytestmark = pytest.mark.lab

PROGRAM = [str(Path(sys.executable).with_name("clusterjobs"))]
LAB = [*PROGRAM, "lab"]
DESCRIPTION = """\
kind: slurm
name: booster
default_partition: batch
node_types:
  a100: {cpus: 2, memory_mib: 9000, gpus: 4, gpu_type: a100, features: [ib], scratch: /local}
  fat_mem: {cpus: 4, memory_mib: 60000, gpus: 0, features: [fat]}
partitions:
  batch: {nodes: {a100: 2}, max_time: 1:00:00, max_nodes: 1, exclusive: true}
  all: {nodes: {a100: 2, fat_mem: 1}}
shared: {/p/scratch: gpfs, /home: nfs}
slurm_commands: /opt/site/slurm/bin
memory_scheduling: true
master_addr_suffix: i
request_gpus: gres
env: {SITE_FABRIC: {value: "mlx5_0,mlx5_1", reason: the third is for management}}
setup: ["export SITE_SETUP='it is'"]
"""
SPEC = """\
name: described
cluster: ./booster.yaml
queue: batch
nodes: 1
gpus_per_node: 4
ranks_per_node: 2
time_limit: 10
framework: command
command: [bash, -c, 'echo "rank $RANK of $WORLD_SIZE: $(hostname), $(getent hosts "$MASTER_ADDR"), \
  $SITE_FABRIC, $SITE_SETUP, $CUDA_VISIBLE_DEVICES"; touch "/local/$RANK"']
logs: /p/scratch/logs
"""


@pytest.fixture(scope="module")
def folder(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("described")
    (folder / "booster.yaml").write_text(DESCRIPTION)
    (folder / "spec.yaml").write_text(SPEC)
    return folder


@pytest.fixture(scope="module")
def env(folder: Path) -> Iterator[dict[str, str]]:
    """An environment with a running lab of all nodes."""
    cache = str(cache_dir().parent)
    variables = {**os.environ, "XDG_STATE_HOME": str(folder / "state"), "XDG_CACHE_HOME": cache}
    output_of([*LAB, "up", str(folder / "booster.yaml")], env=variables)
    yield variables
    output_of([*LAB, "down", "--delete"], env=variables)


def in_lab(command: str, env: dict[str, str]) -> subprocess.CompletedProcess[str]:
    words = [*LAB, "shell", "bash", "-c", command]
    return subprocess.run(words, env=env, capture_output=True, text=True)


def test_partitions_share_the_nodes_of_a_type(env: dict[str, str]) -> None:
    assert json.loads(output_of([*LAB, "status", "--json"], env=env))["nodes"] == {
        "a100-1": "idle",
        "a100-2": "idle",
        "fat-mem-1": "idle",
    }


def run_of(spec: str, env: dict[str, str], folder: Path) -> list[str]:
    """What the ranks of a spec's job print, in order."""
    command = [*LAB, "run", "--output", str(folder / f"of-{spec}"), str(folder / spec)]
    done = subprocess.run(command, env=env, capture_output=True, text=True, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    return sorted(
        line[line.index("rank ") :] for line in done.stdout.splitlines() if " of 2: " in line
    )


def test_a_job_of_a_spec_has_what_the_cluster_gives(env: dict[str, str], folder: Path) -> None:
    assert [re.sub(r"\s+(::ffff:)?", " ", line) for line in run_of("spec.yaml", env, folder)] == [
        f"rank {rank} of 2: a100-1, 10.77.0.1 a100-1 a100-1i, mlx5_0,mlx5_1, it is, 0,1,2,3"
        for rank in (0, 1)
    ]
    assert (folder / "state/clusterjobs/labs/lab/nodes/a100-1/scratch/1").exists()
    assert "#SBATCH --gres=gpu:" in (folder / "of-spec.yaml/job.sh").read_text()


def test_a_job_needs_no_partition_and_no_gpus_of_slurm(env: dict[str, str], folder: Path) -> None:
    """As on sites that choose the partition, and whose GPUs are no GRES."""
    lines = [line for line in DESCRIPTION.splitlines() if "gres" not in line]
    text = "\n".join(lines).replace("gpu_type: a100, ", "")
    (folder / "quiet.yaml").write_text(f"{text}\nwrite_partition: false\nrequest_gpus: none\n")
    (folder / "quiet-spec.yaml").write_text(
        SPEC.replace("booster", "quiet").replace("queue: batch\n", "")
    )
    assert len(run_of("quiet-spec.yaml", env, folder)) == 2
    script = (folder / "of-quiet-spec.yaml/job.sh").read_text()
    assert not [line for line in script.splitlines() if re.match("#SBATCH --(part|g)", line)]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--nodes=2", "Node count specification invalid"),
        ("--time=61", "Requested time limit is invalid"),
        ("--gpus-per-node=5", "node configuration is not available"),
        ("--gpus-per-node=v100:1", "node configuration is not available"),
        ("--constraint=fat", "node configuration is not available"),
        ("--mem=9001", "node configuration is not available"),
    ],
)
def test_slurm_refuses_what_the_cluster_has_not(
    options: str, said: str, env: dict[str, str]
) -> None:
    refused = in_lab(f"sbatch --test-only {options} --wrap true", env)
    assert refused.returncode != 0
    assert said in refused.stderr


@pytest.mark.parametrize(
    "options", ["--time=60 --gpus-per-node=a100:4 --constraint=ib", "-p all -N3", "--mem=9000"]
)
def test_slurm_takes_what_the_cluster_has(options: str, env: dict[str, str]) -> None:
    taken = in_lab(f"sbatch --test-only {options} --wrap true", env)
    assert taken.returncode == 0, taken.stderr


def test_an_import_of_running_nodes_describes_the_same_cluster(env: dict[str, str]) -> None:
    path = "PATH=/opt/site/slurm/bin:$PATH"
    done = in_lab(f"{path} {PROGRAM[0]} clusters import --from-slurm", env)
    assert done.returncode == 0, done.stderr
    found = source_of(done.stdout)
    assert facts_of(found.shape()) == facts_of(source_of(DESCRIPTION).shape()), done.stdout
    assert found.facts.slurm_commands == "/opt/site/slurm/bin"
