"""Containers in a real Slurm: ranks find the job's environment in them, and nothing outlives it.

No container engine is needed: stand-ins record what they are called with, and do what the engine
is documented to do (stand_ins/engines).
"""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest

from clusterjobs.lab.lab import until

pytestmark = pytest.mark.lab

STAND_INS = pathlib.Path(__file__).with_name("stand_ins")
SAVER = pathlib.Path(__file__).with_name("save_on_term.py")
IMAGES = {"pyxis": "nvcr.io#a/b:1", "apptainer": "/fsx/images/a.sif", "docker": "nvcr.io/a/b:1"}
IMAGES |= {"singularity": "/fsx/images/a.sif", "shifter": "nvcr.io/a/b:1"}
SECRET = "container-secret-51f0aa"
HOSTILE = "$(exit 1) `id` 'q' $HOME \\"


def in_container(jobs, name: str, runtime: str, **keys: Any) -> dict[str, Any]:
    """A spec whose ranks run in a container of a stand-in; `software` has more of that key."""
    container = {"runtime": runtime, "image": IMAGES[runtime], **keys.pop("container", {})}
    setup = [
        f"export CALLS=/fsx/records/{name}.calls/all",
        f"export PATH={STAND_INS / 'engines' / runtime}:$PATH",
        *keys.pop("setup", []),
    ]
    software = {**keys.pop("software", {}), "container": container}
    return {**jobs.spec(name, **keys), "software": software, "setup": setup}


def calls(jobs, name: str) -> list[dict[str, Any]]:
    folder = jobs.lab.folder.shared("/fsx") / "records" / f"{name}.calls" / "all"
    return [json.loads(file.read_text()) for file in sorted(folder.glob("*.json"))]


def containers(jobs, name: str) -> list[pathlib.Path]:
    """The containers that the stand-in of docker still knows, on all nodes."""
    folder = jobs.lab.folder.shared("/fsx") / "records" / f"{name}.calls" / "containers"
    return list(folder.glob("*/*/info.json"))


COMBINATIONS = [
    ("pyxis", "srun"),
    ("pyxis", "torchrun"),
    ("pyxis", "deepspeed"),
    ("apptainer", "srun"),
    ("apptainer", "torchrun"),
    ("apptainer", "deepspeed"),
    ("singularity", "srun"),
    ("docker", "torchrun"),
    ("docker", "deepspeed"),
    ("shifter", "torchrun"),
]


@pytest.mark.parametrize(("runtime", "launcher"), COMBINATIONS, ids=lambda pair: str(pair))
def test_ranks_in_containers_know_who_and_where_they_are(jobs, runtime, launcher) -> None:
    name = f"{runtime}-{launcher}"
    spec = in_container(
        jobs,
        name,
        runtime,
        framework="deepspeed",
        launcher=launcher,
        batch={"micro": 1},
        software={"venv": os.fspath(jobs.venv)},
        env={"NCCL_DEBUG": "INFO", "WITH_A_COMMA": "a,b c", "HOSTILE": HOSTILE.replace("$", "$$")},
        secrets=["A_KEY"],
    )
    ended = jobs.run(spec, A_KEY=SECRET)
    assert ended.exit_code == 0, ended.log
    assert sorted(ended.ranks) == [0, 1, 2, 3], ended.log
    first, second = jobs.lab.facts.nodes
    for rank, record in ended.ranks.items():
        seen = record["environment"]
        assert (record["WORLD_SIZE"], record["LOCAL_RANK"]) == ("4", str(rank % 2))
        assert record["host"] == (first if rank < 2 else second)
        assert record["MASTER_ADDR"] == first
        assert seen["OF_THE_IMAGE"] == "1"
        assert seen["NCCL_DEBUG"] == "INFO"
        assert (seen["WITH_A_COMMA"], seen["HOSTILE"]) == ("a,b c", HOSTILE)
        assert seen["A_KEY"] == SECRET
        assert seen["PATH"].startswith(f"{jobs.venv}/bin:")
    found = calls(jobs, name)
    assert found
    assert SECRET not in json.dumps(found)
    assert containers(jobs, name) == []


def test_docker_is_given_what_the_plan_says_and_nothing_of_the_shell(jobs) -> None:
    spec = in_container(jobs, "told-docker", "docker", framework="command", launcher="torchrun")
    spec["software"]["container"]["mounts"] = ["/etc/hostname:/opt/host name:ro"]
    spec["software"]["venv"] = os.fspath(jobs.venv)
    ended = jobs.run(spec, STRAY="from the shell")
    # The stand-in cannot make a folder inside: the mount fails, as the real one's may.
    assert ended.exit_code != 0
    run = next(call["argv"] for call in calls(jobs, "told-docker") if call["argv"][0] == "run")
    words = run[: run.index("nvcr.io/a/b:1")]
    assert "--mount=type=bind,source=/etc/hostname,target=/opt/host name,readonly" in words
    assert "--mount=type=bind,source=/fsx,target=/fsx" in words
    assert f"--user={os.getuid()}:{os.getgid()}" in words
    assert f"--name=clusterjobs-{ended.job_id}" in words
    assert f"--label=clusterjobs.user={os.getuid()}" in words
    assert "--env=MASTER_ADDR" in words
    assert not [word for word in words if "STRAY" in word]
    assert containers(jobs, "told-docker") == []


def ranks_that_save(jobs, name: str) -> tuple[str, pathlib.Path]:
    """A job with four ranks that are running; they save when they are told to end."""
    folder = jobs.lab.folder.shared("/fsx") / name
    spec = in_container(
        jobs,
        name,
        "docker",
        framework="command",
        launcher="torchrun",
        command=["python3", os.fspath(SAVER), f"/fsx/{name}"],
        software={"venv": os.fspath(jobs.venv)},
    )
    job_id = jobs.submit(jobs.render(spec))
    until(
        lambda: len(list(folder.glob("*.started"))) == 4,
        120,
        lambda: f"no ranks: {jobs.end(job_id, name).log}",
    )
    return job_id, folder


def test_ranks_in_docker_hear_that_they_are_to_end(jobs) -> None:
    job_id, folder = ranks_that_save(jobs, "docker-term")
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, "docker-term")
    assert len(list(folder.glob("*.saved"))) == 4, ended.log
    until(lambda: containers(jobs, "docker-term") == [], 120, lambda: "a container is left")


def test_a_container_does_not_outlive_the_client_that_is_killed(jobs) -> None:
    """As Slurm kills it when KillWait is over, and Docker itself would leave the container be."""
    job_id, _ = ranks_that_save(jobs, "docker-kill")
    assert len(containers(jobs, "docker-kill")) == 2
    node = jobs.lab.facts.nodes[1]
    shown = jobs.lab.node_run(node, ["ps", "-ewwo", "pid=,args="]).stdout.splitlines()
    clients = [line.split()[0] for line in shown if "engines/docker/docker run" in line]
    assert clients
    # Whoever has no parent among them is the engine's side, which lives on.
    parents = {
        line.split()[0]: jobs.lab.node_run(node, ["ps", "-o", "ppid=", line.split()[0]])
        for line in shown
        if line.split()[0] in clients
    }
    client = [pid for pid, done in parents.items() if done.stdout.strip() != "1"]
    assert len(client) == 1
    jobs.lab.node_run(node, ["kill", "-KILL", client[0]])
    ended = jobs.end(job_id, "docker-kill")
    assert ended.exit_code != 0
    until(lambda: containers(jobs, "docker-kill") == [], 120, lambda: "a container is left")


@pytest.mark.parametrize("runtime", ["pyxis", "apptainer", "docker", "shifter"])
def test_a_wrong_argument_is_found_in_the_container_before_the_ranks_start(jobs, runtime) -> None:
    pytest.importorskip("deepspeed", reason="needs the extra 'train'")
    shared = jobs.lab.folder.shared("/fsx")
    (shared / "source").mkdir(exist_ok=True)
    (shared / "source" / "text").write_text("data")
    common = {
        "framework": "deepspeed",
        "launcher": "torchrun",
        "batch": {"micro": 1},
        "preflight": {"checks": ["space"]},
        "software": {"venv": os.fspath(jobs.venv)},
    }
    data = [{"source": "/fsx/source", "target": f"/fsx/staged-{runtime}"}]
    keys = {"scheduler": {"type": "WarmupLR", "params": {"warmup_iters": 100}}}
    wrong = in_container(jobs, f"wrong-{runtime}", runtime, ds_config=keys, data=data, **common)
    ended = jobs.run(wrong)
    assert ended.exit_code == 69, ended.log
    assert ended.ranks == {}
    assert "exp.yaml:" in ended.log
    assert "refuses the arguments" in ended.log
    assert "got an unexpected keyword argument 'warmup_iters'" in ended.log
    assert not (shared / f"staged-{runtime}").exists()
    assert containers(jobs, f"wrong-{runtime}") == []
    ended = jobs.run(in_container(jobs, f"right-{runtime}", runtime, data=data, **common))
    assert ended.exit_code == 0, ended.log
    assert "accepts the arguments (" in ended.log
    assert sorted(ended.ranks) == [0, 1, 2, 3]


def test_a_container_without_python_stops_no_job_and_is_named(jobs) -> None:
    spec = in_container(
        jobs,
        "no-python",
        "apptainer",
        framework="deepspeed",
        launcher="torchrun",
        batch={"micro": 1},
        preflight={"checks": ["space"]},
        software={"venv": "/opt/nothing-here"},
    )
    ended = jobs.run(spec)
    assert "could not be checked: the container ended with exit code 1" in ended.log
    assert "no virtual environment at /opt/nothing-here" in ended.log
