"""ssh inside a job: a real sshd on every node, with a key that nothing keeps after the job."""

from __future__ import annotations

import json
import os
import pathlib
import shlex
from typing import Any

import pytest
import yaml
from test_containers import STAND_INS, calls, containers, in_container
from test_secrets_in_a_job import files_with

from clusterjobs.errors import InputError
from clusterjobs.lab.breakage import kill_node, start_node
from clusterjobs.lab.lab import until
from clusterjobs.lab.slurm import cache_dir, find_program, library_dirs_of
from clusterjobs.resources import node_program, node_programs

pytestmark = pytest.mark.lab

SECRET = "ssh-secret-0c7aa2"
KEY = "OPENSSH PRIVATE KEY"


@pytest.fixture(scope="session")
def tools(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A folder with sshd, installed here or unpacked from its package, and a stand-in of pdsh."""
    folder = tmp_path_factory.mktemp("ssh tools")
    try:
        program = find_program("sshd", "openssh-server", cache_dir())
    except InputError as error:
        pytest.skip(str(error))
    libraries = ":".join(map(str, library_dirs_of(program)))
    lines = [f"export LD_LIBRARY_PATH={libraries}"] if libraries else []
    sshd = folder / "sshd"
    sshd.write_text("\n".join(["#!/bin/bash", *lines, f'exec {program} "$@"', ""]))
    sshd.chmod(0o755)
    (folder / "pdsh").symlink_to(STAND_INS / "over_ssh" / "pdsh")
    return folder


# ------------------------------------------------------------------ GPT-NeoX in Docker


def neox(jobs, tools: pathlib.Path, name: str, does: str, **keys: Any) -> dict[str, Any]:
    """deepy.py in the first container; DeepSpeed's own launcher, ssh and sshd are real."""
    pytest.importorskip("deepspeed", reason="needs the extra 'train'")
    configs = jobs.folder / f"{name}-configs"
    configs.mkdir()
    more = {"tensorboard_dir": f"/fsx/records/{name}", "does": does}
    (configs / "small.yml").write_text(yaml.safe_dump(more))
    return in_container(
        jobs,
        name,
        "docker",
        framework="gpt-neox",
        workdir=os.fspath(STAND_INS / "over_ssh"),
        script="train.py",
        args=[],
        configs=[os.fspath(configs / "small.yml")],
        batch={"micro": 2, "global": 16},
        model={"layers": 4, "hidden": 64, "heads": 4, "sequence": 64},
        software={"venv": os.fspath(jobs.venv)},
        secrets=["A_KEY"],
        setup=[f"export IMAGE_PATH={shlex.quote(os.fspath(tools))}"],
        **keys,
    )


def check_nothing_is_left(jobs, name: str) -> None:
    """No container, no key on shared storage, nothing in any node's memory, no sshd."""
    until(lambda: containers(jobs, name) == [], 120, lambda: f"left: {containers(jobs, name)}")
    shared = jobs.lab.folder.shared("/fsx")
    assert list(files_with(KEY, shared, jobs.lab.folder / "log")) == []
    for node in jobs.lab.facts.nodes:
        assert jobs.lab.node_run(node, ["ls", "-A", "/dev/shm"]).stdout == ""
        shown = jobs.lab.node_run(node, ["ps", "-eo", "args="]).stdout
        assert "ssh_serve.py" not in shown
        assert "sshd -D" not in shown
    assert KEY not in json.dumps(calls(jobs, name))


def test_gpt_neox_in_docker_reaches_its_ranks_by_ssh(jobs, tools) -> None:
    spec = neox(jobs, tools, "neox-docker", "end", env={"COMMA": "a,b c"})
    ended = jobs.run(spec, A_KEY=SECRET)
    assert ended.exit_code == 0, ended.log
    first, second = jobs.lab.facts.nodes
    assert sorted(ended.ranks) == [0, 1, 2, 3], ended.log
    assert ended.ranks[0]["met"] == [0, 1, 2, 3]
    for rank, record in ended.ranks.items():
        seen = record["environment"]
        assert (record["WORLD_SIZE"], record["LOCAL_RANK"]) == ("4", str(rank % 2))
        assert record["host"] == (first if rank < 2 else second)
        assert (seen["A_KEY"], seen["COMMA"]) == (SECRET, "a,b c")
        assert seen["OF_THE_IMAGE"] == "1"
        port = 10000 + int(ended.job_id) % 2000
        assert seen["SSH_CONNECTION"].split()[3] == str(port)
    assert SECRET not in json.dumps(calls(jobs, "neox-docker"))
    check_nothing_is_left(jobs, "neox-docker")


def test_a_rank_that_fails_ends_the_job_and_all_containers(jobs, tools) -> None:
    ended = jobs.run(neox(jobs, tools, "neox-docker-fails", "fail"), A_KEY=SECRET)
    assert ended.exit_code != 0
    check_nothing_is_left(jobs, "neox-docker-fails")


def running_neox(jobs, tools: pathlib.Path, name: str) -> str:
    """A job whose four ranks have met, and go on."""
    spec = neox(jobs, tools, name, "go on")
    job_id = jobs.submit(jobs.render(spec), A_KEY=SECRET)
    records = jobs.lab.folder.shared("/fsx") / "records" / name
    log = jobs.lab.folder.shared("/fsx") / "logs" / job_id / "job.log"
    until(
        lambda: len(list(records.glob("?.json"))) == 4,
        180,
        lambda: log.read_text() if log.exists() else "no log",
    )
    assert len(containers(jobs, name)) == 2
    return job_id


def test_a_job_that_is_cancelled_leaves_no_container_and_no_key(jobs, tools) -> None:
    job_id = running_neox(jobs, tools, "neox-docker-term")
    assert jobs.lab.run(["scancel", job_id]).returncode == 0
    ended = jobs.end(job_id, "neox-docker-term")
    assert ended.exit_code != 0
    assert f"job {job_id} ended with exit code" in ended.log  # in time, not killed
    check_nothing_is_left(jobs, "neox-docker-term")


def test_what_a_crashed_node_leaves_is_removed_when_the_next_job_starts_there(jobs, tools) -> None:
    name = "neox-docker-crash"
    job_id = running_neox(jobs, tools, name)
    node = jobs.lab.facts.nodes[1]
    kill_node(jobs.lab, node)
    jobs.lab.wait(job_id, 180)
    start_node(jobs.lab, node, 60)
    until(
        lambda: set(jobs.lab.node_states().values()) == {"idle"},
        120,
        lambda: jobs.lab.run(["sinfo", "--list-reasons"]).stdout,
    )
    left = [json.loads(file.read_text()) for file in containers(jobs, name)]
    assert [info["name"] for info in left] == [f"clusterjobs-{job_id}"]
    # Another user's container, and one of a job of this user that runs, are none of our business.
    place = containers(jobs, name)[0].parents[1]
    foreign = {"clusterjobs.user": "99999"}
    for number, labels in enumerate([foreign, {"made.by": "hand"}]):
        (place / f"other{number}").mkdir()
        info = {"id": f"other{number}", "name": f"clusterjobs-{number}", "labels": labels}
        (place / f"other{number}" / "info.json").write_text(json.dumps(info))
    spec = in_container(
        jobs,
        "after-crash",
        "docker",
        framework="command",
        launcher="torchrun",
        command=["true"],
        software={"venv": os.fspath(jobs.venv)},
    )
    spec["setup"][0] = f"export CALLS=/fsx/records/{name}.calls/all"  # the same engine
    ended = jobs.run(spec)
    assert ended.exit_code == 0, ended.log
    names = sorted(json.loads(file.read_text())["id"] for file in containers(jobs, name))
    assert names == ["other0", "other1"]
    for number in range(2):
        (place / f"other{number}" / "info.json").unlink()
    check_nothing_is_left(jobs, name)


# ------------------------------------------------------------------ the programs by themselves


@pytest.fixture
def alone(jobs, tools):
    """A job of two nodes without containers, whose launcher is a script."""

    def submit(name: str, launcher: str) -> str:
        shared = jobs.lab.folder.shared("/fsx")
        for program in (name for name in node_programs() if name.startswith("ssh_")):
            (shared / program).write_text(node_program(program))
        (shared / f"{name}.launcher").write_text(launcher.format(name=name))
        script = jobs.folder / f"{name}.sh"
        script.write_text(ALONE.format(name=name, tools=shlex.quote(os.fspath(tools))))
        return jobs.lab.sbatch(script, "--nodes=2", "--no-requeue", cwd=jobs.folder)

    return submit


ALONE = r"""#!/bin/bash
set -euo pipefail
PATH={tools}:$PATH
export THE_VALUE='of the job'
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
# Root's sshd wants a user of its own and a folder, which this machine need not have.
as_user=()
if [[ $UID == 0 ]]; then
  {{ cat /etc/passwd; echo 'sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin'; }} > /fsx/passwd
  as_user=(unshare --mount bash -c '
    mount --bind /fsx/passwd /etc/passwd && mount -t tmpfs run /run && exec "$@"' inside)
fi
mkdir "/fsx/ssh.$SLURM_JOB_ID"
exec {{lifeline}}<> <(:)
python3 /fsx/ssh_settings.py >&"$lifeline"
srun --kill-on-bad-exit=1 "${{as_user[@]}}" python3 /fsx/ssh_serve.py "/fsx/ssh.$SLURM_JOB_ID" \
  "${{nodes[@]}}" -- bash -e /fsx/{name}.launcher "${{nodes[@]}}" <&"$lifeline"
"""

LOG_IN = r"""
for node; do
  ssh "$node" 'echo "$(hostname) $THE_VALUE $PWD ${{SLURM_PROCID-none}}"'
done > /fsx/{name}.said
# Neither another key nor a password opens it.
ssh-keygen -q -t ed25519 -N '' -f /tmp/other-$SLURM_JOB_ID
ssh -F /dev/null -p $((10000 + SLURM_JOB_ID % 2000)) -i /tmp/other-$SLURM_JOB_ID \
  -o IdentitiesOnly=yes -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no \
  -o NumberOfPasswordPrompts=0 "$2" true 2> /fsx/{name}.refused && exit 1
rm /tmp/other-$SLURM_JOB_ID*
"""


def test_who_logs_in_finds_the_jobs_environment_and_nobody_else_gets_in(jobs, alone) -> None:
    shared = jobs.lab.folder.shared("/fsx")
    job_id = alone("ssh-alone", LOG_IN)
    ended = jobs.lab.wait(job_id, 90)
    assert ended.exit_code == 0, (jobs.folder / f"slurm-{job_id}.out").read_text()
    lines = [f"{node} of the job {jobs.folder} none" for node in jobs.lab.facts.nodes]
    assert (shared / "ssh-alone.said").read_text().splitlines() == lines
    assert "Permission denied (publickey)" in (shared / "ssh-alone.refused").read_text()
    assert not (shared / f"ssh.{job_id}").exists()


def keys_in_files(jobs) -> list[str]:
    """On shared storage, in the folders of Slurm and of the job, and in the memory of the nodes."""
    folders = (jobs.lab.folder.shared("/fsx"), jobs.lab.folder / "log", jobs.folder)
    found = [str(file) for file in files_with(KEY, *folders)]
    for node in jobs.lab.facts.nodes:
        looked = jobs.lab.node_run(node, ["grep", "--recursive", "--text", "-l", KEY, "/dev/shm"])
        found += looked.stdout.splitlines()
    return found


STAY = "touch /fsx/{name}.ready; exec sleep 300"


def test_no_file_has_a_key_also_when_all_is_killed(jobs, alone) -> None:
    """A node whose processes are killed tidies nothing up: there must be nothing to tidy up."""
    name = "ssh-killed"
    ready = jobs.lab.folder.shared("/fsx") / f"{name}.ready"
    job_id = alone(name, STAY)
    log = jobs.folder / f"slurm-{job_id}.out"
    until(ready.exists, 90, lambda: log.read_text() if log.exists() else "no log")
    assert keys_in_files(jobs) == []
    for node in jobs.lab.facts.nodes:
        shown = jobs.lab.node_run(node, ["pgrep", "-f", "ssh_serve.py|sshd"]).stdout.split()
        jobs.lab.node_run(node, ["kill", "-KILL", *shown])
    assert jobs.lab.wait(job_id, 180).exit_code != 0
    assert keys_in_files(jobs) == []
