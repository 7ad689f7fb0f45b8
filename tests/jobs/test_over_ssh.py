"""Ranks that are reached by ssh: they find what Slurm's would, and end when the job does."""

from __future__ import annotations

import pathlib
import re
import shlex
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from nodes_programs import Prepared, lab, prepared, prepared_folders  # noqa: F401
from test_secrets_in_a_job import files_with

from clusterjobs.frameworks.deepspeed import DeepSpeed
from clusterjobs.lab.lab import until

pytestmark = [pytest.mark.lab, pytest.mark.frameworks]

HERE = pathlib.Path(__file__).parent
SECRET = "over-ssh-secret-b40d17"
HOSTILE = 'it\'s $(touch /fsx/never) %n "here"; `touch /fsx/never`'
WRITTEN = HOSTILE.replace("$", "$$")  # as a spec has a dollar that is one


def spec_of(jobs, prepared: Prepared, name: str, **keys: Any) -> dict[str, Any]:  # noqa: F811
    own = {
        "framework": "deepspeed",
        "launcher": "deepspeed-pdsh",
        "batch": {"micro": 2, "global": 16},
        "software": {"venv": str(prepared.venv)},
    }
    return jobs.spec(name, **{**own, **keys})


def ranks_left(jobs) -> str:
    """Processes of ranks that still run on a node, and what is left of the job's sshd."""
    listed = [
        jobs.lab.node_run(node, ["ps", "-eo", "args"]).stdout for node in jobs.lab.facts.nodes
    ]
    return "\n".join(
        line
        for text in listed
        for line in text.splitlines()
        if "ssh_run.py" in line or "sshd -D" in line or str(HERE) in line
    )


def test_deepspeeds_ranks_over_pdsh_find_what_slurms_would(jobs, prepared) -> None:  # noqa: F811
    spec = spec_of(jobs, prepared, "pdsh", env={"NOTE": WRITTEN, "NCCL_NOTE": WRITTEN})
    spec["secrets"] = ["A_KEY"]
    spec["args"] = [*spec["args"], "--title", HOSTILE]
    folder = jobs.folder / "a $(touch x) 'folder'"
    spec["workdir"] = str(folder).replace("$", "$$")
    folder.mkdir()
    ended = jobs.run(spec, A_KEY=SECRET, **prepared.environment)
    assert ended.exit_code == 0, ended.log
    first, second = jobs.lab.facts.nodes
    assert sorted(ended.ranks) == [0, 1, 2, 3], ended.log
    for rank, record in ended.ranks.items():
        assert (record["WORLD_SIZE"], record["LOCAL_RANK"]) == ("4", str(rank % 2))
        assert record["host"] == (first if rank < 2 else second)
        assert record["MASTER_ADDR"] == first
        assert record["MASTER_PORT"] == str(12000 + int(ended.job_id) % 20000)
        environment = record["environment"]
        assert environment["NOTE"] == environment["NCCL_NOTE"] == HOSTILE
        assert environment["A_KEY"] == SECRET
        assert environment["SLURM_JOB_ID"] == ended.job_id
        assert "SLURM_PROCID" not in environment
        assert environment["PWD"] == str(folder)
        words = record["arguments"]
        assert words[words.index("--title") + 1] == HOSTILE
    assert ended.ranks[0]["met"] == [0, 1, 2, 3]
    shared = jobs.lab.folder.shared("/fsx")
    assert list(files_with(SECRET, shared / "logs", jobs.lab.folder / "log")) == []
    assert not (shared / "never").exists()
    assert not list((shared / "logs" / ended.job_id).glob("ssh.*"))
    until(lambda: not ranks_left(jobs), 120, lambda: ranks_left(jobs))


@pytest.fixture
def own_sshd(jobs, prepared) -> Iterator[dict[str, Any]]:  # noqa: F811
    """An sshd on each node, outside of any job, that lets in a key made for it."""
    folder = jobs.lab.folder.shared("/fsx") / "sshd"
    folder.mkdir(mode=0o700)
    for name in ("key", "host_key"):
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True
        )
    (folder / "config").write_text(
        "Port 2222\nHostKey /fsx/sshd/host_key\nAuthorizedKeysFile /fsx/sshd/key.pub\n"
        "StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin prohibit-password\n"
    )
    sshd = shlex.quote(str(prepared.venv / "bin" / "sshd"))
    script = f"{sshd} -D -f /fsx/sshd/config >/fsx/sshd/log-$(hostname) 2>&1 & echo $!"
    started = {}
    for node in jobs.lab.facts.nodes:
        done = jobs.lab.node_run(node, ["setsid", "bash", "-c", script], env=prepared.environment)
        started[node] = done.stdout.strip()
    yield {"port": 2222, "key": "/fsx/sshd/key"}
    for node, pid in started.items():
        jobs.lab.node_run(node, ["kill", pid])


def test_deepspeed_trains_over_the_nodes_own_sshd(jobs, prepared, own_sshd) -> None:  # noqa: F811
    script = HERE.parents[1] / "examples" / "tiny_gpt" / "train.py"
    spec = spec_of(
        jobs,
        prepared,
        "own-sshd",
        ssh=own_sshd,
        script=str(script),
        batch={"micro": 4, "accumulation": 2},
        zero={"stage": 1},
        args={"layers": 1, "hidden": 64, "steps": 3, "log-every": 1},
        ds_config={"log_level": "info", "steps_per_print": 1},
    )
    ended = jobs.end(jobs.submit(jobs.render(spec), **prepared.environment), "own-sshd", 500)
    assert ended.exit_code == 0, ended.log
    first, second = jobs.lab.facts.nodes
    for rank, node in enumerate((first, first, second, second)):
        assert f"rank {rank} of 4: local rank {rank % 2} on {node}" in ended.log, ended.log
    assert "step 3/3 loss" in ended.log
    (line,) = DeepSpeed.log_lines
    assert re.search(line.pattern, ended.log), ended.log
    until(lambda: "ssh_run.py" not in ranks_left(jobs), 120, lambda: ranks_left(jobs))


FAILING = """
import os, sys, time
sys.exit(17) if os.environ["RANK"] == "3" else time.sleep(600)
"""


def test_a_dead_rank_ends_a_job_over_pdsh(jobs, prepared) -> None:  # noqa: F811
    script = jobs.folder / "failing.py"
    script.write_text(FAILING)
    spec = spec_of(jobs, prepared, "dead", script=str(script), args=[])
    ended = jobs.run(spec, **prepared.environment)
    assert ended.exit_code != 0
    assert f"job {ended.job_id} ended with exit code" in ended.log
    assert not list((jobs.lab.folder.shared("/fsx") / "logs" / ended.job_id).glob("ssh.*"))
    until(lambda: not ranks_left(jobs), 120, lambda: ranks_left(jobs))


def test_ranks_over_ssh_that_are_told_to_end_may_save_first(jobs, prepared) -> None:  # noqa: F811
    folder = jobs.lab.folder.shared("/fsx") / "told"
    spec = spec_of(jobs, prepared, "told", script=str(HERE / "save_on_term.py"), args=["/fsx/told"])
    job_id = jobs.submit(jobs.render(spec), **prepared.environment)
    until(lambda: len(list(folder.glob("*.started"))) == 4, 120, lambda: "no ranks")
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, "told")
    assert len(list(folder.glob("*.saved"))) == 4, ended.log
    assert f"job {job_id} ended with exit code 0" not in ended.log
    assert not list((jobs.lab.folder.shared("/fsx") / "logs" / job_id).glob("ssh.*"))
    until(lambda: not ranks_left(jobs), 120, lambda: ranks_left(jobs))
