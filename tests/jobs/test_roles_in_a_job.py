"""Jobs with roles on a real Slurm: one node serves, two train with two ranks each."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from faults import Running
from rendered_jobs import Jobs, shape_of_text

from clusterjobs import resources
from clusterjobs.lab.lab import Lab, running_lab, until
from clusterjobs.lab.slurm import Slurm

pytestmark = pytest.mark.lab

TIMEOUT = 120
SERVER = pathlib.Path(__file__).with_name("role_server.py")
TRAINER = pathlib.Path(__file__).with_name("role_trainer.py")
CLUSTER = (resources.cluster_configs_dir() / "small.yaml").read_text(encoding="utf-8")
THREE_NODES = CLUSTER.replace("MaxCount: 2", "MaxCount: 3")


@pytest.fixture(scope="module")
def lab(slurm: Slurm, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """The cluster `small` with three nodes."""
    shape = shape_of_text(THREE_NODES, "small.yaml", 3)
    with running_lab(shape, tmp_path_factory.mktemp("roles"), slurm) as running:
        yield running


@pytest.fixture
def start(jobs: Jobs) -> Callable[..., Running]:
    """`start(name, TRAINER_OPTION..., server=[...])`: a job with a role, submitted."""
    (jobs.folder / "three.yaml").write_text(THREE_NODES)

    def submit(name: str, *options: str, server: tuple[str, ...] = (), **keys: Any) -> Running:
        folder = jobs.lab.folder.shared("/fsx") / name
        folder.mkdir()
        words = [f"/fsx/{name}", "{{ roles.server.addr }}", *options]
        program: dict[str, Any] = {"command": ["python3", str(TRAINER), *words]}
        if keys.setdefault("framework", "command") != "command":
            program = {"script": str(TRAINER), "args": words}
        spec = jobs.spec(
            name,
            **{**program, **keys, "cluster": str(jobs.folder / "three.yaml"), "nodes": 3},
            roles={
                "server": {
                    "command": ["python3", str(SERVER), f"/fsx/{name}", *server],
                    "port": 8123,
                }
            },
        )
        return Running(jobs.lab, jobs.submit(jobs.render(spec)), folder)

    return submit


def seen(job: Running, attempt: int = 1) -> list[dict[str, Any]]:
    """What the ranks of an attempt wrote down, in their order, once all four have."""
    files = [job.folder / f"{attempt}.{rank}.json" for rank in range(4)]
    until(lambda: all(file.exists() for file in files), TIMEOUT, job.log)
    return [json.loads(file.read_text()) for file in files]


def server_log(job: Running) -> str:
    return (job.lab.folder.shared("/fsx") / "logs" / job.job_id / "server.log").read_text()


def processes(lab: Lab, program: pathlib.Path) -> str:
    """The processes of a program on all nodes."""
    listed = (lab.node_run(node, ["ps", "-eo", "args"]).stdout for node in lab.facts.nodes)
    return "\n".join(line for text in listed for line in text.splitlines() if str(program) in line)


def test_one_node_serves_and_two_train_as_one(start: Callable[..., Running]) -> None:
    job = start("trains", "torch", framework="torchrun")
    assert job.wait() == 0, job.log()
    ranks, nodes = seen(job), job.nodes()
    assert [one["together"] for one in ranks] == [4, 4, 4, 4]
    assert [one["host"] for one in ranks] == [nodes[0], nodes[0], nodes[1], nodes[1]]
    assert {one["WORLD_SIZE"] for one in ranks} == {"4"}
    assert {one["MASTER_ADDR"] for one in ranks} == {nodes[0]}
    said = [one["server"] for one in ranks]
    assert {one["host"] for one in said} == {nodes[2]}
    both = [*ranks, *said]
    assert {one["CLUSTERJOBS_SERVER_NODES"] for one in both} == {nodes[2]}
    assert {one["CLUSTERJOBS_TRAINING_NODES"] for one in both} == {f"{nodes[0]},{nodes[1]}"}
    assert (job.folder / "server.ended").read_text() == "SIGTERM"
    assert "server is ready" in job.log()
    assert "the server starts" not in job.log()
    assert "0: the server starts" in server_log(job)


def test_a_server_that_dies_ends_the_attempt_and_comes_back_with_the_next(
    start: Callable[..., Running],
) -> None:
    job = start(
        *("comes-back", "wait"),
        time_limit="00:30:00",
        checkpoints={"path": "/fsx/comes-back/checkpoints"},
        restarts={"failure": 1, "time_limit": 1, "grace_seconds": 60},
    )
    seen(job)
    (job.folder / "die").write_text("5")
    seen(job, attempt=2)
    job.scancel("--batch", "--signal=USR1")
    seen(job, attempt=3)
    (job.folder / "end.new").write_text("7")
    (job.folder / "end.new").rename(job.folder / "end")
    assert job.wait() == 7, job.log()
    ends = [(one["reason"], one["exit_code"]) for one in job.records()]
    assert ends == [("failure of server", 5), ("time_limit", 124), ("failure", 7)]
    assert "clusterjobs: server ended before the training; its log, " in job.log()
    assert "0: the server dies" in job.log()
    assert "restarts.failure allows 1" in job.log()


def test_a_cancelled_job_leaves_nothing_on_its_nodes(start: Callable[..., Running]) -> None:
    job = start("cancelled", "wait")
    seen(job)
    job.scancel()
    assert job.wait() != 0
    until(lambda: not processes(job.lab, SERVER), TIMEOUT, lambda: processes(job.lab, SERVER))
    assert not processes(job.lab, TRAINER)
    assert [one["reason"] for one in job.records()] == ["cancelled"]


@pytest.mark.faults
def test_a_server_that_ignores_sigterm_is_killed(start: Callable[..., Running]) -> None:
    job = start("deaf", server=("deaf",))
    assert job.wait() == 0, job.log()
    until(lambda: not processes(job.lab, SERVER), TIMEOUT, lambda: processes(job.lab, SERVER))
    assert not (job.folder / "server.ended").exists()
    assert [one["reason"] for one in job.records()] == ["completed"]
