"""A job in Docker that is started again: its containers end, and each attempt has new ones."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Iterator
from typing import Any

import pytest
from faults import TIMEOUT, Running
from test_containers import calls, containers, in_container
from test_ssh_between_containers import check_nothing_is_left, neox, tools  # noqa: F401

from clusterjobs import resources
from clusterjobs.clusters.parallelcluster.facts import slurm_shape
from clusterjobs.clusters.parallelcluster.source import read_cluster
from clusterjobs.lab.breakage import kill_node, start_node
from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.shape import lab_spec
from clusterjobs.lab.slurm import Slurm

pytestmark = pytest.mark.lab

NODES = 8  # two for each job; all run at the same time
# The first attempt goes on until it is told to end, unless it is deaf; the second ends.
HOLD = """
import os, pathlib, signal, sys, time
place, deaf = pathlib.Path(sys.argv[1]), sys.argv[2:] == ["deaf"]
restart, rank = os.environ.get("SLURM_RESTART_COUNT", "0"), os.environ["RANK"]
stop = pathlib.Path(os.environ["CLUSTERJOBS_STOP_FILE"])
if deaf:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
(place / f"{restart}.{rank}.started").touch()
while restart == "0" and (deaf or not stop.exists()):
    time.sleep(0.1)
if rank == "0":
    (place / "latest").write_text(restart)
"""


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """The cluster `small`, with nodes enough for all jobs at once."""
    text = (resources.cluster_configs_dir() / "small.yaml").read_text(encoding="utf-8")
    assert "MaxCount: 2" in text
    file = tmp_path_factory.mktemp("restarts") / "eight.yaml"
    file.write_text(text.replace("MaxCount: 2", f"MaxCount: {NODES}"))
    return file


@pytest.fixture(scope="module")
def lab(
    slurm: Slurm, cluster: pathlib.Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lab]:
    facts, document = read_cluster(cluster.read_text(encoding="utf-8"), str(cluster), {})
    shape = lab_spec(slurm_shape(facts, document), NODES)
    with running_lab(shape, tmp_path_factory.mktemp("restarts-lab"), slurm) as running:
        yield running


def hold(jobs, cluster: pathlib.Path, name: str, *words: str, **keys: Any) -> dict[str, Any]:
    script = jobs.folder / "hold.py"
    script.write_text(HOLD)
    return in_container(
        jobs,
        name,
        "docker",
        framework="command",
        launcher="torchrun",
        command=["python3", os.fspath(script), f"/fsx/faults/{name}", *words],
        checkpoints={"path": f"/fsx/faults/{name}", "marker": "latest"},
        software={"venv": os.fspath(jobs.venv)},
        **in_time(cluster),
        **keys,
    )


def in_time(cluster: pathlib.Path) -> dict[str, Any]:
    return {
        "cluster": os.fspath(cluster),
        "time_limit": "00:30:00",
        "restarts": {"time_limit": 3, "failure": 0, "node_failure": 1, "grace_seconds": 5},
    }


def start(jobs, spec: dict[str, Any]) -> Running:
    folder = jobs.lab.folder.shared("/fsx") / "faults" / spec["name"]
    return Running(jobs.lab, jobs.submit(jobs.render(spec)), folder)


def started(job: Running, restart: int) -> list[str]:
    return sorted(file.name for file in job.folder.glob(f"{restart}.*.started"))


def near_the_limit(job: Running) -> None:
    job.scancel("--batch", "--signal=USR1")


def test_each_attempt_has_containers_of_its_own(jobs, cluster) -> None:
    last = jobs.lab.facts.nodes[-2:]
    pinned = {"nodelist": ",".join(last)}  # or the second attempt would have other nodes
    found = {
        "docker-lost": start(jobs, hold(jobs, cluster, "docker-lost", sbatch=pinned)),
        "docker-limit": start(jobs, hold(jobs, cluster, "docker-limit")),
        "docker-deaf": start(jobs, hold(jobs, cluster, "docker-deaf", "deaf")),
    }
    for job in found.values():
        until(lambda job=job: len(started(job, 0)) == 4, TIMEOUT, job.log)
    near_the_limit(found["docker-limit"])
    near_the_limit(found["docker-deaf"])
    kill_node(jobs.lab, last[1])
    lost = found["docker-lost"]
    until(lambda: jobs.lab.job(lost.job_id).state != "RUNNING", TIMEOUT, lost.log)
    left = [file.parts[-3] for file in containers(jobs, "docker-lost")]
    assert last[1] in left, "the crashed node has no container left to be removed"
    start_node(jobs.lab, last[1])
    first = {"docker-lost": "node_failure", "docker-limit": "time_limit"}
    for name, job in found.items():
        assert job.wait() == 0, job.log()
        reasons = [one["reason"] for one in job.records()]
        assert reasons == [first.get(name, "time_limit"), "completed"], job.log()
        assert len(started(job, 1)) == 4
        assert containers(jobs, name) == []
        runs = [call["host"] for call in calls(jobs, name) if call["argv"][0] == "run"]
        assert len(runs) == 4, runs
    removed = [call for call in calls(jobs, "docker-lost") if call["argv"][0] == "rm"]
    name = f"clusterjobs-{lost.job_id}"
    assert (last[1], name) in [(call["host"], call["argv"][-1]) for call in removed]


def test_each_attempt_over_ssh_has_a_key_of_its_own(jobs, cluster, tools) -> None:  # noqa: F811
    name = "neox-docker-again"
    spec = neox(jobs, tools, name, "go on once", **in_time(cluster))
    spec |= {"checkpoints": {"path": f"/fsx/faults/{name}"}, "neox": {"checkpoint_factor": 10}}
    script = jobs.render(spec)
    job_id = jobs.submit(script, A_KEY="a secret of the test")
    job = Running(jobs.lab, job_id, jobs.lab.folder.shared("/fsx") / "faults" / name)
    records = jobs.lab.folder.shared("/fsx") / "records" / name
    until(lambda: len(list(records.glob("?.json"))) == 4, TIMEOUT, job.log)
    for file in records.glob("?.json"):
        file.unlink()
    near_the_limit(job)
    assert job.wait() == 0, job.log()
    assert [one["reason"] for one in job.records()] == ["time_limit", "completed"], job.log()
    assert len(list(records.glob("?.json"))) == 4
    runs = [call for call in calls(jobs, name) if call["argv"][0] == "run"]
    assert len(runs) == 4
    check_nothing_is_left(jobs, name)
