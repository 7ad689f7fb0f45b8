"""Steps on a real Slurm: on all ranks by the job's launcher, in containers, and as the job ends."""

from __future__ import annotations

import json
import os
import pathlib
from typing import Any

import pytest
from test_containers import containers, in_container

from clusterjobs.lab.lab import until
from clusterjobs.runs.jobs.records import read_attempts

pytestmark = pytest.mark.lab

# Each rank adds its 1 to the others' and writes down the sum: one world of 4, or four of 1.
SUM = """
import json, os, pathlib, sys, torch, torch.distributed as dist
dist.init_process_group("gloo")
one = torch.ones(1)
dist.all_reduce(one)
file = pathlib.Path(sys.argv[1], os.environ["RANK"])
file.parent.mkdir(parents=True, exist_ok=True)
names = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "MASTER_ADDR", "SHADE")
told = [one.item(), *(os.environ[name] for name in names)]
file.with_suffix(".new").write_text(json.dumps(told))
file.with_suffix(".new").rename(file)
dist.destroy_process_group()
"""
TELL = 'mkdir -p "$1"; echo "${RANK:-none} $SLURM_NTASKS" > "$1/$SLURMD_NODENAME.$SLURM_PROCID"'


def shared(jobs, name: str) -> pathlib.Path:
    return jobs.lab.folder.shared("/fsx") / name


def step(code: str, *words: str, **keys: Any) -> dict[str, Any]:
    return {"command": ["bash", "-c", code, "step", *words], **keys}


def lines(folder: pathlib.Path) -> list[str]:
    return sorted(one.read_text().strip() for one in folder.iterdir())


def reasons(jobs, job_id: str) -> list[str]:
    text = (shared(jobs, "logs") / job_id / "attempts.jsonl").read_text()
    return [one.reason for one in read_attempts(text)]


def test_steps_of_ranks_are_one_world_with_the_variables_of_the_training(jobs) -> None:
    """Before and after it, by torchrun, which uses MASTER_PORT each time, and by srun."""
    name = "steps"
    told = f"/fsx/{name}"
    by_hand = ["srun", "--nodes=1", "--ntasks=2", "-c1", "bash", "-c", TELL, "x", f"{told}/hand"]
    spec = jobs.spec(
        name,
        framework="command",
        launcher="torchrun",
        command=["python3", "-c", SUM, f"{told}/training"],
        env={"SHADE": "red {{ job.node_rank }}"},
        before=[
            {"command": ["python3", "-c", SUM, f"{told}/first"], "per": "rank"},
            step(TELL, f"{told}/srun", per="rank", launcher="srun", timeout_seconds=60),
            step(TELL, f"{told}/nodes", per="node", name="warm", timeout_seconds=60),
            {"command": by_hand},
        ],
        sidecars=[step(f"{TELL}; sleep 600", f"{told}/beside", per="rank", launcher="srun")],
        after=[
            {"command": ["python3", "-c", SUM, f"{told}/last"], "per": "rank"},
            step(f'{TELL}; echo "$CLUSTERJOBS_REASON" > "$1/why"', f"{told}/end", when="always"),
        ],
    )
    end = jobs.run(spec)
    assert end.exit_code == 0, end.log
    folder, first = shared(jobs, name), jobs.lab.facts.nodes[0]
    for part in ("first", "training", "last"):
        for rank in range(4):
            expected = [4, str(rank), str(rank % 2), "4", "2", first, f"red {rank // 2}"]
            assert json.loads((folder / part / str(rank)).read_text()) == expected
    assert lines(folder / "srun") == lines(folder / "beside") == [f"{rank} 4" for rank in range(4)]
    assert lines(folder / "nodes") == lines(folder / "hand") == ["none 2"] * 2
    assert (folder / "end" / "why").read_text() == "completed\n"


@pytest.mark.parametrize(
    ("runtime", "launcher"), [("pyxis", "srun"), ("apptainer", "srun"), ("docker", "torchrun")]
)
def test_steps_run_in_the_container_of_the_job_or_outside(jobs, runtime, launcher) -> None:
    name = f"steps-{runtime}"
    told = f"/fsx/{name}"
    where = (
        'mkdir -p "$1"; echo "${RANK:-none} ${OF_THE_IMAGE:-out}" > "$1/$SLURM_NODEID.${RANK:-x}"'
    )
    spec = in_container(
        *(jobs, name, runtime),
        framework="command",
        launcher=launcher,
        software={"venv": os.fspath(jobs.venv)},
        setup=[f"export PATH=$PATH:{jobs.venv}/bin"],  # on the nodes, too
        before=[
            step(where, f"{told}/ranks", per="rank"),
            step(where, f"{told}/nodes", per="node", container=True),
            step(where, f"{told}/job", container=True),
            step(where, f"{told}/ranks-outside", per="rank", container=False),
            step(where, f"{told}/outside", per="node"),
        ],
        after=[step(where, f"{told}/after", per="rank")],
    )
    end = jobs.run(spec)
    assert end.exit_code == 0, end.log
    found = {one.name: lines(one) for one in shared(jobs, name).iterdir()}
    ranks = [f"{rank} 1" for rank in range(4)]
    assert found == {
        "ranks": ranks,
        "nodes": ["none 1"] * 2,
        "job": ["none 1"],
        "ranks-outside": [f"{rank} out" for rank in range(4)],
        "outside": ["none out"] * 2,
        "after": ranks,
    }
    assert not containers(jobs, name)


# Counts to 20 from where it was. The first attempt waits at 5 for the time limit, and ends.
COUNT = """
mkdir -p "$1"; at=$(cat "$1/at.$RANK" || echo 0)
while (( at < 20 )); do
  at=$((at + 1)); echo $at > "$1/at.$RANK"; echo $at >> "$1/trace.$RANK"
  if (( at == 5 )); then
    touch "$1/begun"; until [[ -e $CLUSTERJOBS_STOP_FILE ]]; do sleep 0.05; done; exit
  fi
done
"""


def test_a_training_before_the_training_resumes_after_the_time_limit_and_runs_once(jobs) -> None:
    name = "in-a-row"
    folder = shared(jobs, name)
    fails_once = 'if [[ ! -e $1/failed ]]; then touch "$1/failed"; exit 7; fi; touch "$1/trained"'
    spec = jobs.spec(
        name,
        framework="command",
        ranks_per_node=1,
        nodes=1,
        command=["bash", "-c", fails_once, "x", f"/fsx/{name}"],
        before=[step(COUNT, f"/fsx/{name}", per="rank", once=True, name="first training")],
        checkpoints={"path": f"/fsx/{name}/checkpoints"},
        restarts={"time_limit": 2, "failure": 2, "grace_seconds": 60},
        time_limit="00:30:00",
    )
    job_id = jobs.submit(jobs.render(spec))
    until((folder / "begun").exists, 120, lambda: "the first training does not begin")
    jobs.lab.run(["scancel", "--batch", "--signal=USR1", job_id])
    end = jobs.end(job_id, name)
    assert end.exit_code == 0, end.log
    assert reasons(jobs, job_id) == ["time_limit", "failure", "completed"], end.log
    steps = [int(one) for one in (folder / "trace.0").read_text().split()]
    assert steps == list(range(1, 21)), end.log  # nothing twice
    assert "step first training was completed in an earlier attempt" in end.log
    assert (folder / "trained").exists()


def test_a_cancelled_step_of_ranks_saves_and_the_last_steps_run(jobs) -> None:
    name = "cancelled-step"
    folder = shared(jobs, name)
    saves = f"""
mkdir -p /fsx/{name}; trap 'touch /fsx/{name}/saved.$RANK; exit' TERM
touch /fsx/{name}/begun.$RANK; while :; do sleep 0.1; done"""
    spec = jobs.spec(
        name,
        framework="command",
        command=["touch", f"/fsx/{name}/trained"],
        before=[step(saves, per="rank", timeout_seconds=600)],
        after=[step(f'echo "$CLUSTERJOBS_REASON" > /fsx/{name}/why', when="always")],
    )
    job_id = jobs.submit(jobs.render(spec))
    until(lambda: len(list(folder.glob("begun.*"))) == 4, 120, lambda: "the step does not begin")
    jobs.lab.run(["scancel", job_id])
    jobs.end(job_id, name)
    assert jobs.lab.job(job_id).state == "CANCELLED"
    assert reasons(jobs, job_id) == ["cancelled"]
    assert len(list(folder.glob("saved.*"))) == 4
    said = folder / "why"
    until(lambda: said.exists() and said.read_text() == "cancelled\n", 120, lambda: "no last step")
    assert not (folder / "trained").exists()
