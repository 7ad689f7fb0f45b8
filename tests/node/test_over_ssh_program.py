"""A rank over ssh, and the sshd beside it, end with their own attempt: also where the next one has
laid out its own rank.json before they have looked.

The next attempt's is moved over the earlier one's, so that at no moment there is none.
"""

from __future__ import annotations

import pathlib
import signal
import subprocess
from collections.abc import Iterator

import pytest
from node_programs import command

from clusterjobs.lab.polling import until


def keep(folder: pathlib.Path, *rank: object) -> pathlib.Path:
    folder.mkdir()
    subprocess.run(command("over_ssh.py", "keep", folder, *rank), check=True, timeout=60)
    return folder / "rank.json"


@pytest.fixture
def begun(tmp_path: pathlib.Path) -> Iterator[list[subprocess.Popen[bytes]]]:
    """What a test has begun, ended with the test."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def lives_until_told(tmp_path: pathlib.Path) -> tuple[str, str, str]:
    """A program that says that it has begun, and that it was told to end."""
    text = (
        f"trap 'touch {tmp_path}/told; exit 0' TERM; touch {tmp_path}/begun; "
        "for ((i = 0; i < 600; i++)); do sleep 0.5; done"
    )
    return "bash", "-c", text


def test_a_rank_ends_when_the_next_attempt_is_laid_out(tmp_path, begun) -> None:
    file = keep(tmp_path / "ssh", *lives_until_told(tmp_path))
    rank = subprocess.Popen(command("over_ssh.py", "run", tmp_path / "ssh"))
    begun.append(rank)
    until((tmp_path / "begun").exists, 60, lambda: "the rank does not begin")
    keep(tmp_path / "next", *lives_until_told(tmp_path)).replace(file)
    rank.wait(60)
    assert (tmp_path / "told").exists()
    assert file.exists()


def test_a_rank_that_fails_leaves_the_next_attempts_file(tmp_path) -> None:
    following = keep(tmp_path / "next", "true")
    file = tmp_path / "ssh" / "rank.json"
    keep(tmp_path / "ssh", "bash", "-c", f"mv {following} {file}; exit 3")
    subprocess.run(command("over_ssh.py", "run", tmp_path / "ssh"), timeout=60)
    assert file.exists()


def test_a_rank_that_fails_ends_the_others_of_its_attempt(tmp_path) -> None:
    file = keep(tmp_path / "ssh", "bash", "-c", "exit 3")
    done = subprocess.run(command("over_ssh.py", "run", tmp_path / "ssh"), timeout=60)
    assert done.returncode == 3
    assert not file.exists()


def test_an_sshd_ends_when_the_next_attempt_is_laid_out(tmp_path, begun) -> None:
    file = keep(tmp_path / "ssh", "true")
    sshd = tmp_path / "sshd"
    sshd.write_text(f"#!/bin/bash\ntouch {tmp_path}/begun\nexec sleep 300\n")
    sshd.chmod(0o755)
    serving = subprocess.Popen(command("over_ssh.py", "serve", tmp_path / "ssh", sshd))
    begun.append(serving)
    until((tmp_path / "begun").exists, 60, lambda: "the sshd does not begin")
    keep(tmp_path / "next", "true").replace(file)
    assert serving.wait(60) == 0


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_a_rank_is_told_is_handed_on(tmp_path, begun, number: signal.Signals) -> None:
    text = f"trap 'exit 7' {number.name[3:]}; touch {tmp_path}/begun; while :; do sleep 0.2; done"
    keep(tmp_path / "ssh", "bash", "-c", text)
    rank = subprocess.Popen(command("over_ssh.py", "run", tmp_path / "ssh"))
    begun.append(rank)
    until((tmp_path / "begun").exists, 60, lambda: "the rank does not begin")
    rank.send_signal(number)
    assert rank.wait(60) == 7
