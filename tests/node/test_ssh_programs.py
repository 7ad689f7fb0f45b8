"""Ranks that are started over ssh: what they find, what ends them, and who is told.

Real ssh and a real sshd are in tests/jobs/test_over_ssh.py.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from typing import Any

import pytest
from node_programs import command
from ssh_attempts import attempts  # noqa: F401

from clusterjobs.lab.lab import until
from clusterjobs.resources import node_programs

FIND = (
    "import json, os, sys; "
    "json.dump([dict(os.environ), os.getcwd(), sys.argv[1:]], open(sys.argv[1], 'w'))"
)


def test_a_rank_finds_the_jobs_environment_and_what_its_launcher_has_set(attempts) -> None:  # noqa: F811
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


def test_a_rank_that_fails_ends_the_others_and_its_node(attempts) -> None:  # noqa: F811
    one = attempts()
    serving, other = one.serve(), one.saving_rank(0)
    failing = one.rank(1, "bash", "-c", "kill -KILL $$")
    assert (failing.wait(60), other.wait(60), serving.wait(60)) == (137, 9, 137)
    assert one.saved(0)


def test_a_command_that_is_not_there_ends_the_node(attempts) -> None:  # noqa: F811
    one = attempts()
    serving, rank = one.serve(), one.rank(0, "no-such-program")
    assert (rank.wait(60), serving.wait(60)) == (1, 127)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_ranks_that_are_told_to_end_may_save(attempts, number: signal.Signals) -> None:  # noqa: F811
    one = attempts()
    serving, rank = one.serve(), one.saving_rank(0)
    rank.send_signal(number)  # as Slurm does, to every process of a step
    serving.send_signal(number)
    assert (rank.wait(60), serving.wait(60)) == (9, 0)
    assert one.saved(0)


def test_a_rank_ends_with_the_process_that_its_launcher_knows(attempts) -> None:  # noqa: F811
    one = attempts()
    serving, rank, other = one.serve(), one.saving_rank(0), one.saving_rank(1)
    rank.kill()
    until(lambda: one.saved(0), 120, lambda: "not told to end")
    assert not one.saved(1)
    assert (serving.poll(), other.poll()) == (None, None)


def test_a_rank_ends_when_its_connection_is_cut(attempts) -> None:  # noqa: F811
    """As seen from the node: sshd no longer reads what the rank writes."""
    one = attempts()
    one.serve()
    rank = one.saving_rank(0, stdout=subprocess.PIPE)
    rank.stdout.close()
    assert rank.wait(60) == 9
    assert one.saved(0)


def test_a_node_ends_when_nobody_holds_it_any_more(attempts) -> None:  # noqa: F811
    one = attempts()
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    serving, rank = one.serve(), one.saving_rank(0)
    with subprocess.Popen(command("ssh_run.py", one.name, "hold"), **pipes) as holding:
        assert holding.stdout.readline() == b"held\n"
        assert (serving.poll(), rank.poll()) == (None, None)
        holding.stdin.close()
        assert (rank.wait(60), serving.wait(60)) == (9, 0)
    assert one.saved(0)


def test_who_holds_a_node_ends_with_it(attempts) -> None:  # noqa: F811
    """Else its connection would keep the step of Slurm waiting."""
    one = attempts()
    pipes: Any = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    serving = one.serve()
    with subprocess.Popen(command("ssh_run.py", one.name, "hold"), **pipes) as holding:
        assert holding.stdout.readline() == b"held\n"
        serving.terminate()
        assert (holding.wait(60), serving.wait(60)) == (0, 0)


def test_everything_ends_with_the_input(attempts) -> None:  # noqa: F811
    one = attempts()
    serving, rank = one.serve(), one.saving_rank(0)
    serving.stdin.close()
    assert (serving.wait(60), rank.wait(60)) == (1, 1)


def test_a_rank_is_never_started_by_another_attempt(attempts) -> None:  # noqa: F811
    earlier, one = attempts("0"), attempts("1")
    earlier.serve()
    serving = one.serve()
    assert one.rank(0, "bash", "-c", "exit $((ATTEMPT + 5))").wait(60) == 6
    assert serving.wait(60) == 6
    assert earlier.rank(0, "bash", "-c", "exit $((ATTEMPT + 5))").wait(60) == 5


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_another_user_starts_nothing(attempts) -> None:  # noqa: F811
    one = attempts()
    serving = one.serve()
    assert one.rank(0, "touch", one.folder / "own").wait(60) == 0

    sys.path.append(str(node_programs()["ssh_run.py"].parent))
    import ssh_run

    one.folder.chmod(0o777)
    pid = os.fork()  # another user need not be able to read the program
    if pid == 0:
        os.setuid(65534)
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        connection.connect(f"\0{one.name}")
        with contextlib.suppress(OSError):
            ssh_run.send_request(connection, ["touch", str(one.folder / "foreign")])
            connection.recv(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert (one.folder / "own").exists()
    assert not (one.folder / "foreign").exists()
    assert serving.poll() is None


@pytest.mark.skipif(os.geteuid() != 0, reason="needs two users")
def test_no_rank_is_handed_to_another_user(attempts, capfd) -> None:  # noqa: F811
    """Who has taken the name of the socket first gets no command, no variable and no output."""
    one = attempts()
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listening:
        listening.bind(f"\0{one.name}")
        listening.settimeout(60)
        asking, answer = socket.socketpair()
        pid = os.fork()
        if pid == 0:
            try:
                os.setuid(65534)
                listening.listen()  # whose socket it is counts from here
                answer.send(b"listening")
                answer.send(listening.accept()[0].recv(1000) or b"nothing")
            finally:
                os._exit(0)
    with asking, answer:
        assert asking.recv(1000) == b"listening"
        rank = one.rank(0, "true")
        assert asking.recv(1000) == b"nothing"
        assert os.waitpid(pid, 0)[1] == 0
    assert rank.wait(60) == 1
    assert "another user answers as" in capfd.readouterr().err


def test_other_users_cannot_guess_the_name_of_the_socket(monkeypatch) -> None:
    monkeypatch.syspath_prepend(str(node_programs()["ssh_settings.py"].parent))
    import ssh_settings

    monkeypatch.setenv("SLURM_JOB_ID", "4711")
    names = {ssh_settings.socket_name() for _ in range(3)}
    assert len(names) == 3
    assert all(name.startswith("clusterjobs-4711-0-") for name in names)
