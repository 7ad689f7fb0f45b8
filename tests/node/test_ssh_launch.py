"""The first node of a launch over ssh: reaches the nodes (a stand-in of ssh), runs the launcher."""

from __future__ import annotations

import os
import pathlib
import signal
import subprocess

import pytest
from ssh_attempts import SAVES, Attempt, attempts  # noqa: F401

from clusterjobs.lab.lab import until

SSH = """#!/bin/bash
while [[ $1 == -* ]]; do [[ $1 == -[oF] ]] && shift; shift; done
[[ -e {folder}/reached ]] || exit 255
shift
exec bash -c "$*"
"""


@pytest.fixture
def first(attempts, tmp_path: pathlib.Path) -> Attempt:  # noqa: F811
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


def test_a_launcher_that_hides_a_failed_rank_does_not_succeed(first: Attempt) -> None:
    """DeepSpeed's ends with 0 when its pdsh is killed (launcher/runner.py)."""
    (first.place / "command").write_bytes(b"bash\0-c\0exit 3\0")
    assert first.serve("bash", "-c", f"{first.place}/rank; exit 0").wait(60) == 3


def test_the_launcher_does_not_hear_what_ends_the_ranks(first: Attempt) -> None:
    words = ("bash", "-c", SAVES.format(first.folder))
    (first.place / "command").write_bytes(b"".join(word.encode() + b"\0" for word in words))
    script = f"RANK=0 {first.place}/rank; code=$?; touch {first.folder}/ended; exit $code"
    serving = first.serve("bash", "-c", script)
    until((first.folder / "begun.0").exists, 120, lambda: "the rank does not begin")
    listed = subprocess.run(["pgrep", "-P", str(serving.pid)], capture_output=True, text=True)
    for pid in map(int, listed.stdout.split()):  # ssh, the launcher and the rank
        os.kill(pid, signal.SIGTERM)
    serving.send_signal(signal.SIGTERM)
    assert serving.wait(60) == 9
    assert first.saved(0)
    assert (first.folder / "ended").exists()


def test_a_node_that_cannot_be_reached_is_named(first: Attempt, capfd) -> None:
    (first.folder / "reached").unlink()
    assert first.serve("touch", first.folder / "launched").wait(60) == 1
    assert not (first.folder / "launched").exists()
    assert "ssh to node0 ended with 255" in capfd.readouterr().err


def test_an_sshd_that_does_not_start_ends_the_node(first: Attempt, capfd) -> None:
    """As where another program has taken its port on one node."""
    for name, does in (("sshd", "exit 255"), ("ssh", "exec sleep 600")):
        (first.folder / "bin" / name).write_text(f"#!/bin/sh\n{does}\n")
        (first.folder / "bin" / name).chmod(0o755)
    assert first.serve("true", private="no key", public="no key").wait(60) == 1
    assert "sshd ended with 255" in capfd.readouterr().err
