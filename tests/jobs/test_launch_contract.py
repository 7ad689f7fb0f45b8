"""Rendered scripts in a real Slurm: every framework by every launcher tells its ranks the truth."""

from __future__ import annotations

import contextlib
import shlex
from collections.abc import Iterator
from typing import Any

import pytest

from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.lab.lab import Lab, until
from clusterjobs.launchers import LAUNCHERS

pytestmark = pytest.mark.lab

# Their own arguments, or programs that are not installed here: test_other_frameworks.py,
# test_fairseq_trains.py, test_horovod_trains.py, test_lightning_trains.py, test_composer.py,
# test_torchtitan.py, test_megatron_core_trains.py.
ELSEWHERE = (
    *("composer", "fairseq", "gpt-neox", "horovod", "lightning", "megatron-deepspeed"),
    *("megatron-lm", "torchtitan"),
)
PAIRS = [
    (name, launcher)
    for name, one in FRAMEWORKS.items()
    if name not in ELSEWHERE
    for launcher in one.launchers
    if not LAUNCHERS[launcher].over_ssh  # test_over_ssh.py
    and launcher != "mpirun"  # test_mpi_trains.py
]


def extra_keys(framework: str) -> dict[str, Any]:
    return {"batch": {"micro": 2, "global": 16}} if framework == "deepspeed" else {}


@pytest.mark.parametrize(("framework", "launcher"), PAIRS, ids=lambda pair: str(pair))
def test_ranks_know_who_and_where_they_are(jobs, framework: str, launcher: str) -> None:
    name = f"{framework}-{launcher}"
    ended = jobs.run(
        jobs.spec(name, framework=framework, launcher=launcher, **extra_keys(framework))
    )
    assert ended.exit_code == 0, ended.log
    first, second = jobs.lab.facts.nodes
    assert sorted(ended.ranks) == [0, 1, 2, 3]
    for rank, record in ended.ranks.items():
        assert record["WORLD_SIZE"] == "4"
        assert record["LOCAL_RANK"] == str(rank % 2)
        assert record["host"] == (first if rank < 2 else second)
        assert record["MASTER_ADDR"] == first
        assert record["MASTER_PORT"] == str(12000 + int(ended.job_id) % 20000)
    if launcher not in ("torchrun", "accelerate"):  # its agent holds the port
        assert ended.ranks[0]["met"] == [0, 1, 2, 3]
    assert f"job {ended.job_id} ended with exit code 0" in ended.log


def test_deepspeeds_own_launcher_is_given_a_host_file(jobs) -> None:
    spec = jobs.spec("hosts", framework="deepspeed", launcher="deepspeed", batch={"micro": 1})
    ended = jobs.run(spec)
    assert ended.exit_code == 0, ended.log
    hostfile = jobs.lab.folder.shared("/fsx") / "logs" / ended.job_id / "hostfile"
    assert hostfile.read_text() == "".join(f"{node} slots=2\n" for node in jobs.lab.facts.nodes)


@contextlib.contextmanager
def shared_nodes(lab: Lab) -> Iterator[None]:
    """The partition of `small` gives whole nodes; for a while it lets jobs share them."""
    command = ["scontrol", "update", "PartitionName=train"]
    assert lab.run([*command, "OverSubscribe=NO"]).returncode == 0
    yield
    assert lab.run([*command, "OverSubscribe=EXCLUSIVE"]).returncode == 0


def test_two_jobs_on_the_same_nodes_do_not_meet(jobs) -> None:
    shared = {"sbatch": {"exclusive": False}, "cpus_per_task": 1, "framework": "command"}
    gate = ["bash", "-c", 'until [ -e /fsx/gate ]; do sleep 0.1; done; exec "$@"', "gate"]
    specs = [jobs.spec(f"pair-{n}", prefix=gate, **shared) for n in (1, 2)]
    with shared_nodes(jobs.lab):
        ids = [jobs.submit(jobs.render(spec)) for spec in specs]
        # Both run before either may go on and meet.
        until(lambda: all(jobs.lab.job(one).state == "RUNNING" for one in ids), 120, lambda: "")
        (jobs.lab.folder.shared("/fsx") / "gate").touch()
        ended = [jobs.end(one, spec["name"]) for one, spec in zip(ids, specs, strict=True)]
    for one in ended:
        assert one.exit_code == 0, one.log
        assert one.ranks[0]["met"] == [0, 1, 2, 3]
    assert ended[0].ranks[0]["host"] == ended[1].ranks[0]["host"]
    assert ended[0].ranks[0]["MASTER_PORT"] != ended[1].ranks[0]["MASTER_PORT"]


@pytest.mark.parametrize("programs", ["", "ss() { return 127; }\n"], ids=["all", "no ss"])
def test_a_port_in_use_is_left_alone(jobs, programs: str) -> None:
    """Another program, started at the top of the script, listens where the job would."""
    spec = jobs.spec("taken", framework="command")
    script = jobs.render(spec)
    taker = (
        "import os, socket, time; p = 12000 + int(os.environ['SLURM_JOB_ID']) % 20000; "
        "s = socket.create_server(('', p)); time.sleep(300)"
    )
    text = script.read_text()
    before = "mapfile -t nodes"
    assert text.count(before) == 1
    port = '"/dev/tcp/127.0.0.1/$((12000 + SLURM_JOB_ID % 20000))"'
    wait = f"until (: < {port}) 2>/dev/null; do :; done"
    script.write_text(text.replace(before, f'python3 -c "{taker}" &\n{wait}\n{programs}{before}'))
    ended = jobs.end(jobs.submit(script), "taken")
    assert ended.exit_code == 0, ended.log
    first = int(ended.job_id) % 20000
    assert ended.ranks[3]["MASTER_PORT"] == str(12000 + (first + 7919) % 20000)
    assert ended.ranks[0]["met"] == [0, 1, 2, 3]


def test_a_failing_rank_ends_the_job_at_once(jobs) -> None:
    command = ["bash", "-c", 'if [ "$RANK" = 3 ]; then exit 17; fi; sleep 300']
    ended = jobs.run(jobs.spec("failing", framework="command", command=command))
    assert "task 3: Exited with exit code 17" in ended.log
    # The code of the rank that failed first; srun's own is the highest of all tasks, and it has
    # ended the others by SIGTERM.
    assert ended.exit_code == 17
    assert "ended with exit code 17" in ended.log


STRAY = {
    "RANK": "7",
    "LOCAL_RANK": "7",
    "WORLD_SIZE": "99",
    "MASTER_ADDR": "elsewhere",
    "MASTER_PORT": "1",
    "PYTHONPATH": "/nowhere",
    "CUDA_VISIBLE_DEVICES": "5",
    "PMI_RANK": "3",
    "OMPI_COMM_WORLD_RANK": "3",
    "SLURM_CONSTRAINT": "nonesuch",
    "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
    "SLURM_DISTRIBUTION": "cyclic",
    "SLURM_EXCLUSIVE": "1",
    "SLURM_EXPORT_ENV": "NONE",
    "SLURM_GPUS_PER_NODE": "8",
    "SLURM_GRES": "gpu:8",
    "SLURM_HINT": "nomultithread",
    "SLURM_LABELIO": "0",
    "SLURM_MEM_PER_CPU": "1",
    "SLURM_NTASKS_PER_CORE": "1",
    "SLURM_RESV_PORTS": "3",
    "SLURM_STDOUTMODE": "none",
    "SLURM_STEP_GRES": "gpu:8",
    "SLURM_STEP_ID": "3",
    "SLURM_TASK_PROLOG": "/nowhere",
    "SLURM_THREADS_PER_CORE": "1",
    "SLURM_TIMELIMIT": "1",
    "SLURM_TIME_FORMAT": "relative",
    "SQUEUE_STATES": "PENDING",
    "SCANCEL_STATE": "PENDING",
    "SRUN_CPUS_PER_TASK": "64",
}


def test_variables_of_another_job_do_not_reach_this_one(jobs, tmp_path) -> None:
    """Submitted from inside a job: the lab's own sbatch would drop SLURM_* before the job's."""
    inner = jobs.render(jobs.spec("stray", framework="command"))
    settings = " ".join(f"{name}={shlex.quote(value)}" for name, value in STRAY.items())
    outer = tmp_path / "outer.sh"
    outer.write_text(f"#!/bin/bash\nenv {settings} sbatch --parsable {inner} > {tmp_path}/id\n")
    assert jobs.lab.wait(jobs.submit(outer)).exit_code == 0
    ended = jobs.end((tmp_path / "id").read_text().strip(), "stray")
    assert ended.exit_code == 0, ended.log
    assert sorted(ended.ranks) == [0, 1, 2, 3]
    for rank, record in ended.ranks.items():
        assert (record["RANK"], record["WORLD_SIZE"]) == (str(rank), "4")
        assert record["host"] == jobs.lab.facts.nodes[rank // 2]  # block, not cyclic
        seen = record["environment"]
        for name in ("PYTHONPATH", "CUDA_VISIBLE_DEVICES", "PMI_RANK", "OMPI_COMM_WORLD_RANK"):
            assert name not in seen
        for name in ("SLURM_HINT", "SLURM_MEM_PER_CPU", "SLURM_CONSTRAINT", "SLURM_TASK_PROLOG"):
            assert name not in seen
        for name in ("SLURM_TIME_FORMAT", "SQUEUE_STATES", "SCANCEL_STATE"):
            assert name not in seen
        assert seen["SLURM_CONF"]


def test_a_rank_may_go_on_long_after_the_others(jobs) -> None:
    """srun --wait counts from the first task that ends, and then kills the rest."""
    text = jobs.render(jobs.spec("late", framework="command")).read_text()
    assert "--wait=0 " in text
    command = ["bash", "-c", 'if [ "$RANK" = 0 ]; then sleep 4; touch /fsx/late.saved; fi']
    # The same step with a limit shorter than the rank needs shows what --wait=0 prevents.
    hasty = jobs.run(
        jobs.spec("hasty", framework="command", command=command, srun={"wait": 1, "label": False})
    )
    assert hasty.exit_code == 137
    patient = jobs.run(jobs.spec("patient", framework="command", command=command))
    assert patient.exit_code == 0, patient.log
    assert (jobs.lab.folder.shared("/fsx") / "late.saved").exists()


def test_fewer_tasks_at_submission_do_not_make_a_smaller_world(jobs) -> None:
    script = jobs.render(jobs.spec("fewer", framework="command"))
    ended = jobs.end(jobs.lab.sbatch(script, "--ntasks-per-node=1", cwd=script.parent), "fewer")
    if ended.exit_code == 0:
        assert sorted(ended.ranks) == [0, 1, 2, 3]
        assert {record["WORLD_SIZE"] for record in ended.ranks.values()} == {"4"}
    else:
        assert ended.ranks == {}


MODULES = [
    ("torchrun", "torchrun"),
    ("torchrun", "srun"),
    ("accelerate", "accelerate"),
    ("deepspeed", "deepspeed"),
]


@pytest.mark.parametrize(("framework", "launcher"), MODULES, ids=lambda one: str(one))
def test_a_module_is_started_as_a_script_is(jobs, framework: str, launcher: str) -> None:
    keys = extra_keys(framework)
    spec = jobs.spec(f"module-{launcher}", framework=framework, launcher=launcher, **keys)
    folder, _, script = spec["script"].rpartition("/")
    spec |= {"workdir": folder, "script": f"-m {script.removesuffix('.py')}"}
    ended = jobs.run(spec)
    assert ended.exit_code == 0, ended.log
    assert {rank: one["WORLD_SIZE"] for rank, one in ended.ranks.items()} == dict.fromkeys(
        range(4), "4"
    )
