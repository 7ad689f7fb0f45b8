"""Ranks that are started over ssh: what they find, what ends them, and who is told.

A stand-in takes the place of ssh. Real ones, and a real sshd, are in tests/jobs/test_over_ssh.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from node_programs import command

from clusterjobs.lab.polling import until
from clusterjobs.resources import node_programs

NO_SSHD = b'{"port": 1, "file": ""}\n'
# Says that it has begun, and that it was told to end; then it saves.
SAVES = (
    'trap "sleep 0.5; touch {0}/saved.$RANK; exit 9" TERM; touch {0}/begun.$RANK; '
    "while kill -0 $PPID; do sleep 0.1; done"
)


class Attempt:
    """`ssh_serve.py` on one node, and ranks that are asked of it."""

    def __init__(self, folder: pathlib.Path, job: str, node: str, restart: str = "0") -> None:
        self.folder, self.name = folder, f"clusterjobs-{job}-{restart}"
        self.place = folder / f"ssh.{restart}"
        self.place.mkdir()
        self.environment = {
            **os.environ,
            "SLURM_JOB_ID": job,
            "SLURM_NODEID": node,
            "SLURM_RESTART_COUNT": restart,
            "SLURM_PROCID": "0",
            "THE_VALUE": "of the job",
            "ATTEMPT": restart,
        }
        self.processes: list[subprocess.Popen[bytes]] = []

    def serve(self, *launcher: object, settings: bytes = NO_SSHD) -> subprocess.Popen[bytes]:
        words = command("ssh_serve.py", self.place, "node0", "--", *launcher)
        options: Any = {"stdin": subprocess.PIPE, "cwd": self.folder, "env": self.environment}
        serving = subprocess.Popen(words, **options)
        self.processes.append(serving)
        assert serving.stdin
        serving.stdin.write(settings)
        serving.stdin.flush()
        return serving

    def rank(self, number: int, *words: object, **options: Any) -> subprocess.Popen[bytes]:
        file = self.folder / f"command.{uuid.uuid4().hex}"
        file.write_bytes(b"".join(os.fsencode(str(word)) + b"\0" for word in words))
        environment = {**os.environ, "RANK": str(number), "NOT_THE_LAUNCHERS": "1"}
        asking = command("ssh_run.py", self.name, file)
        self.processes.append(subprocess.Popen(asking, env=environment, **options))
        return self.processes[-1]

    def saving_rank(self, number: int, **options: Any) -> subprocess.Popen[bytes]:
        rank = self.rank(number, "bash", "-c", SAVES.format(self.folder), **options)
        until((self.folder / f"begun.{number}").exists, 60, lambda: "the rank does not begin")
        return rank

    def saved(self, number: int) -> bool:
        return (self.folder / f"saved.{number}").exists()


@pytest.fixture
def attempts(tmp_path: pathlib.Path) -> Iterator[Any]:
    """Attempts of one job, on a node that is not the first; all that they started is ended."""
    made: list[Attempt] = []
    job = uuid.uuid4().hex

    def attempt(restart: str = "0", node: str = "1") -> Attempt:
        made.append(Attempt(tmp_path, job, node, restart))
        return made[-1]

    yield attempt
    for process in [process for one in made for process in one.processes]:
        process.terminate()  # ssh_run.py does not hear it, and ends with ssh_serve.py
    for process in [process for one in made for process in one.processes]:
        process.wait(60)
        for stream in filter(None, (process.stdin, process.stdout)):
            stream.close()


FIND = (
    "import json, os, sys; "
    "json.dump([dict(os.environ), os.getcwd(), sys.argv[1:]], open(sys.argv[1], 'w'))"
)


def test_a_rank_finds_the_jobs_environment_and_what_its_launcher_has_set(attempts) -> None:
    one = attempts()
    one.serve()
    hostile = "it's $(exit 1) \\ \n"
    rank = one.rank(3, sys.executable, "-c", FIND, one.folder / "found", hostile)
    assert rank.wait(60) == 0
    environment, folder, words = json.loads((one.folder / "found").read_text())
    assert (environment["THE_VALUE"], environment["RANK"]) == ("of the job", "3")
    assert not {"SLURM_PROCID", "NOT_THE_LAUNCHERS"} & environment.keys()
    assert folder == str(one.folder)
    assert words[1:] == [hostile]


def test_a_rank_that_fails_ends_the_others_and_its_node(attempts) -> None:
    one = attempts()
    serving, other = one.serve(), one.saving_rank(0)
    failing = one.rank(1, "bash", "-c", "exit 3")
    assert (failing.wait(60), other.wait(60), serving.wait(60)) == (3, 9, 3)
    assert one.saved(0)


def test_a_command_that_is_not_there_ends_the_node(attempts) -> None:
    one = attempts()
    serving, rank = one.serve(), one.rank(0, "no-such-program")
    assert (rank.wait(60), serving.wait(60)) == (1, 127)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ranks_that_are_told_to_end_may_save(attempts, number: signal.Signals) -> None:
    one = attempts()
    serving, rank = one.serve(), one.saving_rank(0)
    rank.send_signal(number)  # as Slurm does, to every process of a step
    serving.send_signal(number)
    assert (rank.wait(60), serving.wait(60)) == (9, 0)
    assert one.saved(0)


def test_a_rank_ends_with_the_process_that_its_launcher_knows(attempts) -> None:
    one = attempts()
    serving, rank, other = one.serve(), one.saving_rank(0), one.saving_rank(1)
    rank.kill()
    until(lambda: one.saved(0), 60, lambda: "not told to end")
    assert not one.saved(1)
    assert (serving.poll(), other.poll()) == (None, None)


def test_a_rank_ends_when_its_connection_is_cut(attempts) -> None:
    """As seen from the node: sshd no longer reads what the rank writes."""
    one = attempts()
    one.serve()
    rank = one.saving_rank(0, stdout=subprocess.PIPE)
    rank.stdout.close()
    assert rank.wait(60) == 9
    assert one.saved(0)


def test_a_node_ends_when_nobody_holds_it_any_more(attempts) -> None:
    one = attempts()
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    serving, rank = one.serve(), one.saving_rank(0)
    with subprocess.Popen(command("ssh_run.py", one.name, "hold"), **pipes) as holding:
        assert holding.stdout.readline() == b"held\n"
        assert (serving.poll(), rank.poll()) == (None, None)
        holding.stdin.close()
        assert (rank.wait(60), serving.wait(60)) == (9, 0)
    assert one.saved(0)


def test_everything_ends_with_the_input(attempts) -> None:
    one = attempts()
    serving, rank = one.serve(), one.saving_rank(0)
    serving.stdin.close()
    assert (serving.wait(60), rank.wait(60)) == (1, 1)


def test_a_rank_is_never_started_by_another_attempt(attempts) -> None:
    earlier, one = attempts("0"), attempts("1")
    earlier.serve()
    serving = one.serve()
    assert one.rank(0, "bash", "-c", "exit $((ATTEMPT + 5))").wait(60) == 6
    assert serving.wait(60) == 6
    assert earlier.rank(0, "bash", "-c", "exit $((ATTEMPT + 5))").wait(60) == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_another_user_starts_nothing(attempts) -> None:
    one = attempts()
    serving = one.serve()
    assert one.rank(0, "touch", one.folder / "own").wait(60) == 0

    sys.path.append(str(node_programs()["ssh_run.py"].parent))
    import ssh_run

    one.folder.chmod(0o777)
    pid = os.fork()  # another user need not be able to read the program
    if pid == 0:
        os.setuid(65534)
        connection = ssh_run.connect(one.name)
        with contextlib.suppress(OSError):
            ssh_run.send_request(connection, ["touch", str(one.folder / "foreign")])
            connection.recv(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert (one.folder / "own").exists()
    assert not (one.folder / "foreign").exists()
    assert serving.poll() is None


# ------------------------------------------------------------------ the first node

SSH = """#!/bin/bash
while [[ $1 == -* ]]; do [[ $1 == -[oF] ]] && shift; shift; done
[[ -e {folder}/reached ]] || exit 255
shift
exec bash -c "$*"
"""


@pytest.fixture
def first(attempts, tmp_path: pathlib.Path) -> Attempt:
    """The first node, which reaches itself by a stand-in of ssh."""
    one = attempts(node="0")
    (tmp_path / "bin").mkdir()
    ssh = tmp_path / "bin" / "ssh"
    ssh.write_text(SSH.format(folder=tmp_path))
    ssh.chmod(0o755)
    (tmp_path / "reached").touch()
    one.environment["PATH"] = f"{tmp_path}/bin:{os.environ['PATH']}"
    return one


def test_the_launcher_is_given_nothing_that_it_would_paste(first: Attempt) -> None:
    found = ("bash", "-c", f'printf %s "$RANK $THE_VALUE $PWD" > {first.folder}/rank.$RANK')
    (first.place / "command").write_bytes(b"".join(word.encode() + b"\0" for word in found))
    script = f"""
        env > {first.folder}/environment; pwd > {first.folder}/folder
        RANK=0 {first.place}/rank && RANK=1 ssh node0 {first.place}/rank
    """
    assert first.serve("bash", "-c", script).wait(60) == 0
    for rank in "01":
        assert (first.folder / f"rank.{rank}").read_text() == f"{rank} of the job {first.folder}"
    lines = (first.folder / "environment").read_text().splitlines()
    names = {line.partition("=")[0] for line in lines}
    assert names <= {"HOME", "LD_LIBRARY_PATH", "PATH", "PYTHONUNBUFFERED", "PWD", "SHLVL", "_"}
    assert (first.folder / "folder").read_text() == "/\n"
    assert not first.place.exists()


def test_a_launcher_whose_shells_are_the_ranks_finds_the_job(first: Attempt) -> None:
    script = f"pwd > {first.folder}/folder; exit $((ATTEMPT + 4))"
    assert first.serve("bash", "-c", script).wait(60) == 4
    assert (first.folder / "folder").read_text() == f"{first.folder}\n"


def test_the_launcher_does_not_hear_what_ends_the_ranks(first: Attempt) -> None:
    words = ("bash", "-c", SAVES.format(first.folder))
    (first.place / "command").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    script = f"RANK=0 {first.place}/rank; code=$?; touch {first.folder}/ended; exit $code"
    serving = first.serve("bash", "-c", script)
    until((first.folder / "begun.0").exists, 60, lambda: "the rank does not begin")
    listed = subprocess.run(["pgrep", "-P", str(serving.pid)], capture_output=True, text=True)
    for pid in map(int, listed.stdout.split()):  # ssh, the launcher and the rank
        os.kill(pid, signal.SIGTERM)
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(60) == 9
    assert first.saved(0)
    assert (first.folder / "ended").exists()


def test_a_node_that_cannot_be_reached_is_named(first: Attempt, capfd) -> None:
    (first.folder / "reached").unlink()
    assert first.serve("true").wait(60) == 1
    assert "ssh to node0 ended with 255" in capfd.readouterr().err


def test_an_sshd_that_does_not_start_ends_the_node(first: Attempt, capfd) -> None:
    """As where another program has taken its port on one node."""
    for name, does in (("sshd", "exit 255"), ("ssh", "exec sleep 600")):
        (first.folder / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (first.folder / "bin" / name).chmod(0o755)
    settings = b'{"port": 1, "private": "no key", "public": "no key"}\n'
    assert first.serve("true", settings=settings).wait(60) == 1
    assert "sshd ended with 255" in capfd.readouterr().err
