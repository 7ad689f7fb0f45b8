"""Two submits of one sweep at the same moment, and submits that are killed: no point is started
twice, and none is lost."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from stand_in_slurm import StandInSlurm

from clusterjobs.errors import InputError
from clusterjobs.lab.lab import until
from clusterjobs.runs.jobs.folders import SUBMISSIONS
from clusterjobs.runs.submit.lock import LOCK, submit_lock

COMMAND = [sys.executable, "-c", "from clusterjobs.cli.main import main; main()", "submit"]
POINTS = 12
SPEC = {
    "name": "tiny",
    "cluster": "small",
    "framework": "command",
    "command": ["./train"],
    "env": {"LR": "0"},
    "logs": "logs",
    "sweep": {"grid": {"env.LR": list(range(POINTS))}, "max_running": 4},
}


def heed_signals() -> None:
    """A process ignores what its caller ignores: SIGINT in the background of a shell."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Submits:
    """Runs `clusterjobs submit` in processes of their own."""

    def __init__(self, folder: pathlib.Path, site_home: pathlib.Path) -> None:
        self.folder, self.slurm = folder, StandInSlurm(folder / "bin")
        (folder / "exp.yaml").write_text(yaml.safe_dump(SPEC))
        self.environment = {
            **os.environ,
            "PATH": self.slurm.path,
            "XDG_CONFIG_HOME": str(site_home),
            "STAND_IN_DELAY": "0.2",
        }

    def start(self, *options: str) -> subprocess.Popen[str]:
        """Its stderr is in the file `messages`."""
        with (self.folder / "messages").open("a") as file:
            return subprocess.Popen(
                [*COMMAND, "exp.yaml", *options],
                cwd=self.folder,
                env=self.environment,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                preexec_fn=heed_signals,
            )

    def wait_for(self, message: str) -> None:
        """Until a submit has said that."""
        file = self.folder / "messages"
        until(lambda: message in file.read_text(), 120, file.read_text)

    def run(self, *options: str) -> str:
        """stdout of a submit that must succeed."""
        return output_of(self.start(*options))

    def starts(self) -> collections.Counter[str]:
        """How often each point was given to Slurm, by all that it has recorded of its calls."""
        records = (self.folder / "logs/tiny" / SUBMISSIONS).read_text().splitlines()
        by_token = {one["token"]: one["points"] for one in map(json.loads, records)}
        found: collections.Counter[str] = collections.Counter()
        for call in self.slurm.calls():
            comment = next(word for word in call["words"] if word.startswith("--comment="))
            points = by_token[comment.rpartition(":")[2]]
            found.update(points[task] for task in call["tasks"])
        return found


def output_of(process: subprocess.Popen[str]) -> str:
    out, _ = process.communicate(timeout=120)
    assert process.returncode == 0, out
    return out


@pytest.fixture
def submits(tmp_path: pathlib.Path, site_home: pathlib.Path) -> Submits:
    return Submits(tmp_path, site_home)


def check_round(submits: Submits, number_of_processes: int = 2) -> None:
    """Several submits at once: each point is started once."""
    running = [submits.start("-o", f"out{n}") for n in range(number_of_processes)]
    said = [output_of(one) for one in running]
    starts = submits.starts()
    assert len(starts) == POINTS
    assert set(starts.values()) == {1}
    assert sum("nothing to submit" in one for one in said) == number_of_processes - 1


def test_two_submits_start_each_point_once(submits: Submits) -> None:
    check_round(submits, number_of_processes=3)


@pytest.mark.faults
@pytest.mark.parametrize("number", range(20))
def test_two_submits_start_each_point_once_20_times(submits: Submits, number: int) -> None:
    check_round(submits)


def test_a_submit_of_other_points_waits_for_its_turn(submits: Submits) -> None:
    running = [submits.start("-o", f"out{n}", "--points", f"{n}-{n + 7}") for n in (0, 4)]
    for one in running:
        output_of(one)
    starts = submits.starts()
    assert len(starts) == POINTS
    assert set(starts.values()) == {1}


# ------------------------------------------------------------------ crashes


def test_a_submit_that_is_killed_before_it_records_the_id(submits: Submits) -> None:
    submits.slurm.kill_caller()
    killed = submits.start()
    killed.communicate(timeout=120)
    assert killed.returncode == -signal.SIGKILL
    assert "nothing to submit" in submits.run()
    assert set(submits.starts().values()) == {1}


def test_a_killed_submit_whose_sbatch_goes_on(submits: Submits) -> None:
    submits.slurm.close_gate()
    killed = submits.start()
    until(submits.slurm.waits_at_gate, 120, lambda: "sbatch was not called")
    killed.kill()
    other = submits.start()
    submits.wait_for(f"(process {killed.pid}, since ")
    submits.slurm.open_gate()
    assert "nothing to submit" in output_of(other)
    assert set(submits.starts().values()) == {1}
    killed.communicate(timeout=120)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_waits_for_the_answer_of_sbatch(submits: Submits, number: int) -> None:
    submits.slurm.close_gate()
    stopped = submits.start()
    until(submits.slurm.waits_at_gate, 120, lambda: "sbatch was not called")
    stopped.send_signal(number)
    submits.wait_for("stopping after its answer")
    submits.slurm.open_gate()
    stopped.communicate(timeout=120)
    assert stopped.returncode == 130
    lines = (submits.folder / "logs/tiny" / SUBMISSIONS).read_text().splitlines()
    assert [json.loads(line)["job_id"] for line in lines] == [None, 100]
    assert not (submits.folder / "logs/tiny" / LOCK).exists()


# ------------------------------------------------------------------ the lock


def lock_of(folder: pathlib.Path, **changes: Any) -> None:
    holder = {"host": "head-2", "pid": 7, "user": "ann", "time": "2026-11-22 15:00:00"}
    (folder / LOCK).write_text(json.dumps(holder | changes))


def test_a_lock_of_this_machine_without_its_process_is_taken_over(tmp_path: pathlib.Path) -> None:
    lock_of(tmp_path, host=socket.gethostname())
    with submit_lock(tmp_path, pytest.fail):
        assert json.loads((tmp_path / LOCK).read_text())["pid"] == os.getpid()
    assert not (tmp_path / LOCK).exists()


def test_a_lock_of_another_machine_is_waited_for(tmp_path: pathlib.Path) -> None:
    lock_of(tmp_path)
    said: list[str] = []

    def say(message: str) -> None:
        said.append(message)
        (tmp_path / LOCK).unlink()

    with submit_lock(tmp_path, say):
        pass
    assert said == ["waiting: ann on head-2 (process 7, since 2026-11-22 15:00:00) is submitting"]


@pytest.mark.parametrize("text", ["", "[]", '{"host": "x"}', "\0"])
def test_a_lock_that_stays_is_an_error(tmp_path: pathlib.Path, text: str) -> None:
    (tmp_path / LOCK).write_text(text)
    with pytest.raises(InputError) as caught, submit_lock(tmp_path, lambda _: None, timeout=0.2):
        pass
    (problem,) = caught.value.problems
    assert problem.what == f"another process still holds the lock of `submit`, {tmp_path / LOCK}"
    assert problem.hint == "wait for it; if nobody is submitting now, remove that file"


def hard_link(path: pathlib.Path) -> None:
    own = path.with_name("own")
    own.write_text("own")
    path.hardlink_to(own)


@pytest.mark.parametrize(
    "plant", [os.mkfifo, lambda path: path.symlink_to("/etc/passwd"), hard_link]
)
def test_a_record_that_another_user_has_planted(
    tmp_path: pathlib.Path, plant: Callable[[pathlib.Path], None]
) -> None:
    plant(tmp_path / SUBMISSIONS)
    with pytest.raises(InputError), submit_lock(tmp_path, lambda _: None):
        pass
