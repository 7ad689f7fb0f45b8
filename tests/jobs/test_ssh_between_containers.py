"""ssh inside a job: a real sshd on every node, with a key that nothing keeps after the job."""

from __future__ import annotations

import json
import os
import pathlib
import re
import shlex
from typing import Any

import pytest
import yaml
from test_containers import STAND_INS, calls, containers, in_container
from test_secrets_in_a_job import files_with

from clusterjobs.errors import InputError
from clusterjobs.lab.breakage import kill_node, start_node
from clusterjobs.lab.packages import cache_dir, find_program, library_dirs_of
from clusterjobs.lab.polling import until
from clusterjobs.resources import node_program

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
        software={"venv": os.fspath(jobs.venv)},
        secrets=["A_KEY"],
        setup=[f"export IMAGE_PATH={shlex.quote(os.fspath(tools))}"],
        **keys,
    )


def check_nothing_is_left(jobs, name: str) -> None:
    """No container, no key on shared storage, none in any node's memory, no sshd."""
    until(lambda: containers(jobs, name) == [], 60, lambda: f"left: {containers(jobs, name)}")
    shared = jobs.lab.folder.shared("/fsx")
    assert list(files_with(KEY, shared, jobs.lab.folder / "log")) == []
    for node in jobs.lab.facts.nodes:
        assert "clusterjobs-" not in jobs.lab.node_run(node, ["ls", "/dev/shm"]).stdout
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


# ------------------------------------------------------------------ the program by itself


@pytest.fixture
def alone(jobs, tools):
    """A script that serves on both nodes without containers until /fsx/NAME.go is there."""

    def submit(name: str) -> str:
        for program in ("job_ssh.py", "job_ssh_login.py"):
            (jobs.lab.folder.shared("/fsx") / program).write_text(node_program(program))
        script = jobs.folder / f"{name}.sh"
        script.write_text(ALONE.format(name=name, tools=shlex.quote(os.fspath(tools))))
        return jobs.lab.sbatch(script, "--nodes=2", "--no-requeue", cwd=jobs.folder)

    return submit


ALONE = r"""#!/bin/bash
set -euo pipefail
PATH={tools}:$PATH
export THE_VALUE='of the job'
folder=/dev/shm/clusterjobs-$SLURM_JOB_ID
mapfile -t nodes < <(scontrol show hostnames "$SLURM_JOB_NODELIST")
# Root's sshd wants a user of its own and a folder, which this machine need not have.
as_user=()
if [[ $UID == 0 ]]; then
  {{ cat /etc/passwd; echo 'sshd:x:65533:65533::/run/sshd:/usr/sbin/nologin'; }} > /fsx/passwd
  as_user=(unshare --mount bash -c '
    mount --bind /fsx/passwd /etc/passwd && mount -t tmpfs run /run && exec "$@"' inside)
fi
exec {{lifeline}}> >(trap '' TERM; exec srun --overlap "${{as_user[@]}}" \
  python3 /fsx/job_ssh.py serve \
  "$folder" $((10000 + SLURM_JOB_ID % 2000)) "${{nodes[@]}}")
served=$!
python3 /fsx/job_ssh.py keys >&"$lifeline"
until python3 /fsx/job_ssh.py reach "$folder" "${{nodes[@]}}" 2> /dev/null; do
  kill -0 "$served"
  sleep 0.2
done
for node in "${{nodes[@]}}"; do
  ssh -F "$folder/.ssh/config" "$node" 'echo "$(hostname) $THE_VALUE $PWD ${{SLURM_PROCID-none}}"'
done > /fsx/{name}.said
ls -ld "$folder" > /fsx/{name}.folder
# Neither another key nor a password opens it.
ssh-keygen -q -t ed25519 -N '' -f /tmp/other-$SLURM_JOB_ID
ssh -F /dev/null -p $((10000 + SLURM_JOB_ID % 2000)) -i /tmp/other-$SLURM_JOB_ID \
  -o IdentitiesOnly=yes -o UserKnownHostsFile=/dev/null -o StrictHostKeyChecking=no \
  -o NumberOfPasswordPrompts=0 "${{nodes[1]}}" true 2> /fsx/{name}.refused && exit 1
rm /tmp/other-$SLURM_JOB_ID*
touch /fsx/{name}.ready
until [[ -e /fsx/{name}.go ]]; do sleep 0.1; done
printf 'end\n' >&"$lifeline"
exec {{lifeline}}>&-
tail --pid="$served" -f /dev/null
"""


def in_memory(jobs, node: str) -> list[str]:
    shown = jobs.lab.node_run(node, ["ls", "/dev/shm"]).stdout.split()
    return [name for name in shown if name.startswith("clusterjobs-")]


def ready(jobs, name: str, job_id: str) -> None:
    file = jobs.lab.folder.shared("/fsx") / f"{name}.ready"

    def there() -> bool:
        end = jobs.lab.job(job_id).end
        assert end is None, (jobs.folder / f"slurm-{job_id}.out").read_text()
        return file.exists()

    until(there, 90, lambda: "not ready")


def test_who_logs_in_finds_the_jobs_environment_and_nobody_else_gets_in(jobs, alone) -> None:
    shared = jobs.lab.folder.shared("/fsx")
    job_id = alone("ssh-alone")
    ready(jobs, "ssh-alone", job_id)
    for node in jobs.lab.facts.nodes:
        assert in_memory(jobs, node) == [f"clusterjobs-{job_id}"]
    (shared / "ssh-alone.go").touch()
    assert jobs.lab.wait(job_id, 60).exit_code == 0
    lines = [f"{node} of the job {jobs.folder} none" for node in jobs.lab.facts.nodes]
    assert (shared / "ssh-alone.said").read_text().splitlines() == lines
    assert re.match("drwx------", (shared / "ssh-alone.folder").read_text())
    assert "Permission denied (publickey)" in (shared / "ssh-alone.refused").read_text()
    assert list(files_with(KEY, shared, jobs.lab.folder / "log", jobs.folder)) == []
    for node in jobs.lab.facts.nodes:
        assert in_memory(jobs, node) == []


def test_keys_are_gone_after_a_power_cut_and_after_the_next_start(jobs, alone) -> None:
    """A node that lost its power has an empty memory; where `serve` was killed, the next one
    removes what it left."""
    first, second = jobs.lab.facts.nodes
    job_id = alone("ssh-crash")
    ready(jobs, "ssh-crash", job_id)
    shown = jobs.lab.node_run(first, ["pgrep", "-f", "job_ssh.py serve"]).stdout.split()
    jobs.lab.node_run(first, ["kill", "-KILL", *shown])
    kill_node(jobs.lab, second)
    jobs.lab.wait(job_id, 180)
    start_node(jobs.lab, second, 60)
    until(
        lambda: set(jobs.lab.node_states().values()) == {"idle"},
        120,
        lambda: jobs.lab.run(["sinfo", "--list-reasons"]).stdout,
    )
    assert in_memory(jobs, first) == [f"clusterjobs-{job_id}"]
    assert in_memory(jobs, second) == []
    again = alone("ssh-again")
    ready(jobs, "ssh-again", again)
    assert in_memory(jobs, first) == [f"clusterjobs-{again}"]
    (jobs.lab.folder.shared("/fsx") / "ssh-again.go").touch()
    assert jobs.lab.wait(again, 60).exit_code == 0
    assert in_memory(jobs, first) == []
