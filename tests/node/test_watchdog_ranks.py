"""watchdog_ranks.py: which processes of a node are ranks, and what it writes down about them."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from node_programs import command

JOB, ATTEMPT, OWN_STEP = "4711", "2", "9"


def process(proc: pathlib.Path, pid: int, environment: bytes, cmdline: bytes = b"python3\0") -> int:
    (proc / str(pid)).mkdir(parents=True)
    (proc / str(pid) / "environ").write_bytes(environment)
    (proc / str(pid) / "cmdline").write_bytes(cmdline)
    return pid


def environment(step: str | None = "0", job: str = JOB, attempt: str = ATTEMPT) -> bytes:
    words = ["PATH=/bin", f"SLURM_JOB_ID={job}", f"CLUSTERJOBS_ATTEMPT={attempt}"]
    return "\0".join([*words, *([f"SLURM_STEP_ID={step}"] if step else []), ""]).encode()


def test_ranks_are_known_by_their_environment(
    programs, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_STEP_ID", OWN_STEP)
    rank = process(tmp_path, 1, environment())
    retitled = process(tmp_path, 2, b"\0\0\0", b"training, step 3")
    process(tmp_path, 3, environment(OWN_STEP))
    process(tmp_path, 4, environment(None))  # the launcher, on the first node
    process(tmp_path, 5, environment(job="4712"))
    process(tmp_path, 6, environment(attempt="1"))
    process(tmp_path, 7, b"PATH=/bin\0")
    process(tmp_path, 8, b"", b"")  # a zombie
    process(tmp_path, 9, b"\0", b"slurmstepd: [4711.0]\0")
    (tmp_path / "10").mkdir()  # it has just ended
    (tmp_path / "self").mkdir()
    found = programs("watchdog_ranks").ranks(JOB, ATTEMPT, str(tmp_path))
    assert sorted(found) == [rank, retitled]


def test_steps_are_known_by_their_slurmstepd(
    programs, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_STEP_ID", OWN_STEP)
    for pid, step in enumerate(("4711.batch", "4711.extern", "4711.0", "4711.12", "4712.3")):
        process(tmp_path, pid, b"", b"slurmstepd: [%s]" % step.encode())
    with pytest.raises(OSError, match="shows no slurmstepd"):
        programs("watchdog_ranks").steps(JOB, str(tmp_path))
    process(tmp_path, 99, b"", b"slurmstepd: [4711.9]")
    assert programs("watchdog_ranks").steps(JOB, str(tmp_path)) == ["0", "12"]


@pytest.mark.parametrize(
    ("file", "error", "found"),
    [
        # the program is setuid, may be executed only, or has made itself unreadable
        ("environ", PermissionError, [1]),
        ("cmdline", PermissionError, [1]),
        ("environ", FileNotFoundError, []),
        ("cmdline", ProcessLookupError, []),
    ],
)
def test_only_a_process_that_has_ended_is_no_rank(
    programs,
    tmp_path: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
    file: str,
    error: type[OSError],
    found: list[int],
) -> None:
    process(tmp_path, 1, environment())
    assert ranks_with(error, file, programs, tmp_path, monkeypatch) == found


@pytest.mark.parametrize("cmdline", [b"", b"slurmstepd: [4711.0]\0"], ids=["zombie", "slurmstepd"])
def test_an_unreadable_environment_makes_no_rank_of_a_process_that_is_none(
    programs, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch, cmdline: bytes
) -> None:
    process(tmp_path, 1, environment(), cmdline)
    assert ranks_with(PermissionError, "environ", programs, tmp_path, monkeypatch) == []


def test_a_node_that_cannot_read_its_processes_gives_no_number(
    programs, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process(tmp_path, 1, environment())
    with pytest.raises(OSError, match="too many open files"):
        ranks_with(OSError, "environ", programs, tmp_path, monkeypatch)


def ranks_with(
    error: type[OSError],
    file: str,
    programs: Callable[[str], Any],
    proc: pathlib.Path,
    monkeypatch: pytest.MonkeyPatch,
) -> list[int]:
    """The ranks that are found while one file of each process cannot be read."""
    program = programs("watchdog_ranks")
    monkeypatch.setenv("SLURM_STEP_ID", OWN_STEP)

    def read(path: str, *options: Any) -> Any:
        if path.endswith(file):
            raise error("too many open files")
        return open(path, *options)

    monkeypatch.setattr(program, "open", read, raising=False)
    return list(program.ranks(JOB, ATTEMPT, str(proc)))


def test_a_stalled_rank_leaves_its_stack_and_its_flight_record(tmp_path: pathlib.Path) -> None:
    spy = tmp_path / "bin" / "py-spy"
    spy.parent.mkdir()
    spy.write_text('#!/bin/sh\necho "stack of $3"\n')
    spy.chmod(0o755)
    pipe = tmp_path / "trace-0.pipe"
    os.mkfifo(pipe)
    variables = {**os.environ, "SLURM_JOB_ID": f"{os.getpid()}.x", "CLUSTERJOBS_ATTEMPT": ATTEMPT}
    rank = subprocess.Popen(
        [sys.executable, "-c", "print(flush=True); input()"],
        env={**variables, "SLURM_STEP_ID": "0"},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert rank.stdout
    rank.stdout.readline()
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    done = subprocess.run(
        command("watchdog_ranks.py", "stacks", tmp_path, ATTEMPT),
        env={
            **variables,
            "SLURM_STEP_ID": OWN_STEP,
            "SLURMD_NODENAME": "node-1",
            "PATH": f"{spy.parent}:{os.environ['PATH']}",
            "TORCH_NCCL_DEBUG_INFO_PIPE_FILE": str(tmp_path / "trace-"),
        },
        capture_output=True,
        text=True,
        check=True,
    )
    rank.communicate()
    assert int(done.stdout) >= 1
    stacks = (tmp_path / f"stacks.{ATTEMPT}.node-1").read_text()
    assert f"stack of {rank.pid}\n" in stacks
    assert os.read(reader, 10) == b"1\n"
    os.close(reader)
