"""Faults for jobs of the lab: what is broken, when, and what the job made of it.

All cases run at the same time in one lab, each on nodes of its own. Spare nodes lie beside them:
ParallelCluster replaces those that are lost.
"""

from __future__ import annotations

import json
import pathlib
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from lab_mounts import mount_tmpfs

from clusterjobs.lab.breakage import kill_node, start_node
from clusterjobs.lab.lab import Lab, until

STEPS = pathlib.Path(__file__).with_name("steps.py")
SAVE_EVERY = 10
TIMEOUT = 300  # for whatever has to happen; on an idle machine all of it takes seconds


@dataclass
class Running:
    """A job of one case, seen through the shared folder and through Slurm."""

    lab: Lab
    job_id: str
    folder: pathlib.Path

    def trace(self) -> list[list[int]]:
        """For each attempt the step that it began from, and the steps that it did."""
        file = self.folder / "trace"
        lines = file.read_text().splitlines() if file.exists() else []
        attempts: list[list[int]] = []
        for line in lines:
            if line.startswith("start "):
                attempts.append([int(line.removeprefix("start "))])
            elif attempts:
                attempts[-1].append(int(line))
        return attempts

    def reach_step(self, step: int) -> None:
        self._until(lambda: any(step in done[1:] for done in self.trace()), f"step {step}")

    def reach_saving(self) -> None:
        self._until(lambda: (self.folder / "saving").exists(), "saving")

    def reach(self, name: str) -> None:
        self._until(lambda: (self.folder / name).exists(), name)

    def _until(self, ask: Callable[[], Any], what: str) -> None:
        until(ask, TIMEOUT, lambda: f"job {self.job_id} never came to {what}: {self.log()}")

    def nodes(self) -> list[str]:
        shown = self.lab.job(self.job_id).nodes
        return self.lab.run(["scontrol", "show", "hostnames", shown]).stdout.split()

    def signal_rank(self, rank: int, signal: str) -> None:
        """In the attempt that runs now, the last one that has written its trace."""
        node = self.nodes()[rank // 2]
        pid = (self.folder / f"pid.{len(self.trace()) - 1}.{rank}").read_text()
        assert self.lab.node_run(node, ["kill", f"-{signal}", pid]).returncode == 0

    def kill_rank(self, rank: int) -> None:
        self.signal_rank(rank, "KILL")

    def kill_step_daemon(self, index: int) -> None:
        """kill -9 of the slurmstepd that the ranks of a node belong to.

        A Slurm of another release of Debian has its loader before the name. The pattern does not
        match the command that it is in: there, a backslash precedes the bracket.
        """
        kill = ["pkill", "-KILL", "-f", rf"slurmstepd: \[{self.job_id}\.0\]"]
        assert self.lab.node_run(self.nodes()[index], kill).returncode == 0

    def scancel(self, *words: str) -> None:
        """scancel, with these words before the job's id."""
        assert self.lab.run(["scancel", *words, self.job_id]).returncode == 0

    def log(self) -> str:
        file = self.lab.folder.shared("/fsx") / "logs" / self.job_id / "job.log"
        return file.read_text(errors="replace") if file.exists() else "(no log)"

    def records(self) -> list[dict[str, Any]]:
        """The last record of each attempt."""
        file = self.lab.folder.shared("/fsx") / "logs" / self.job_id / "attempts.jsonl"
        lines = file.read_text().splitlines() if file.exists() else []
        return list({one["attempt"]: one for one in map(json.loads, lines)}.values())

    def wait(self) -> int:
        """The exit code, once Slurm says that the job has ended for good."""
        end = time.monotonic() + TIMEOUT
        while (ended := self.lab.job(self.job_id).end) is None:
            assert time.monotonic() < end, f"job {self.job_id} does not end: {self.log()}"
            time.sleep(1)  # forty cases ask the same controller
        until(
            lambda: "ended with exit code" in self.log() or ended.state != "COMPLETED", 20, self.log
        )
        return ended.exit_code


Fault = Callable[[Running], None]


@dataclass(frozen=True)
class AtStep:
    """A fault behind a step: the training waits for it, however slow this machine is."""

    step: int
    fault: Fault

    def __call__(self, job: Running) -> None:
        job.reach_step(self.step)
        self.fault(job)
        (job.folder / "go").touch()


@dataclass(frozen=True)
class Case:
    """One fault at one moment. `reasons` are those of the attempts, in order."""

    fault: str
    moment: str
    inject: Fault
    reasons: tuple[str, ...]
    exit_codes: tuple[int, ...] = (0,)
    options: tuple[str, ...] = ()
    keys: dict[str, Any] = field(default_factory=dict)
    nodes: int = 2
    watchdog: str = ""  # options of watchdog.py, which would else act after minutes
    survived_by: tuple[int, ...] = ()  # from this version of Slurm on, the job may just complete

    @property
    def name(self) -> str:
        return re.sub(r"[^a-z0-9]+", "-", f"{self.fault} {self.moment}".lower()).strip("-")

    def accepts(self, reasons: tuple[str, ...], version: tuple[int, ...]) -> bool:
        may_complete = bool(self.survived_by) and version >= self.survived_by
        return reasons == self.reasons or (may_complete and reasons == (DONE,))

    def spec(self, cluster: pathlib.Path) -> dict[str, Any]:
        folder = f"/fsx/faults/{self.name}"
        options = ["--save-every", str(SAVE_EVERY), *self.options]
        if isinstance(self.inject, AtStep):
            options += ["--hold-at", str(self.inject.step + 1)]
        return {
            "name": self.name,
            "cluster": str(cluster),
            "nodes": self.nodes,
            "ranks_per_node": 2,
            "framework": "command",
            "command": ["python3", str(STEPS), folder, *options],
            "time_limit": "00:30:00",
            "logs": "/fsx/logs",
            "checkpoints": {"path": f"{folder}/checkpoints", "marker": "latest"},
            "restarts": {"time_limit": 5, "failure": 3, "node_failure": 2, "grace_seconds": 5},
            **self.keys,
        }


def while_saving(then: Fault) -> Fault:
    def inject(job: Running) -> None:
        job.reach_step(SAVE_EVERY)  # the first is complete; the second is being written
        job.reach_step(2 * SAVE_EVERY)
        job.reach_saving()
        then(job)

    return inject


def cut(how: str, index: int) -> Fault:
    return lambda job: kill_node(job.lab, job.nodes()[index], how)


def cut_off_the_first(job: Running) -> None:
    """The network of the node that saves: in the lab it still has the shared folder, so that its
    rank is stopped, as the writes of a node without a network are."""
    job.signal_rank(0, "STOP")
    cut("network", 0)(job)


def nothing(job: Running) -> None:
    """The job is faulty by itself."""


def fill_disk(job: Running) -> None:
    """A file system of 16 KiB in place of the checkpoints' folder, on the node that saves."""
    node, folder = job.nodes()[0], f"/fsx/faults/{job.folder.name}/checkpoints"
    put_back = 'cp -r "$1".full/{step-*,latest} "$1"'
    copied = job.lab.node_run(node, ["cp", "-r", folder, f"{folder}.full"])
    mount_tmpfs(job.lab, node, folder, "size=16k,mode=755")
    back = job.lab.node_run(node, ["bash", "-c", put_back, "put_back", folder])
    assert copied.returncode == back.returncode == 0, copied.stderr + back.stderr


def kill_rank(rank: int) -> Fault:
    return lambda job: job.kill_rank(rank)


def cancel(job: Running) -> None:
    job.scancel()


def cut_at_the_end(job: Running) -> None:
    """The network of a node fails while its ranks end, so that srun is not notified.

    slurmstepd gives up within these seconds, which shows nowhere. In Slurm 26.05 it tries again
    every minute, so that either srun or the watchdog ends the step first.
    """
    node = job.nodes()[1]
    kill_node(job.lab, node, "network")
    (job.folder / "go").touch()
    job.reach_step(60)
    time.sleep(20)
    start_node(job.lab, node)


def kill_script(job: Running) -> None:
    job.scancel("--batch", "--signal=KILL")


def say_the_limit_is_near(job: Running) -> None:
    job.scancel("--batch", "--signal=USR1")  # what Slurm does for --signal=B:USR1@...


FAILED, LOST, LIMIT, DONE = "failure", "node_failure", "time_limit", "completed"
STALLED = "stalled"
SLOW = ("--seconds", "0.5")
VERY_SLOW = ("--seconds", "1.5")  # Slurm finds out before all is done
SLOW_SAVE = ("--save-seconds", "4")
AT_15 = "between checkpoints"
SAVING = "while saving"

# fault, moment, what is done, the attempts' reasons, the exit codes, the program's options
_ROWS: tuple[tuple[str, str, Fault, tuple[str, ...], tuple[int, ...], tuple[str, ...]], ...] = (
    ("rank killed", "before a checkpoint", AtStep(3, kill_rank(0)), (FAILED, DONE), (0,), ()),
    ("rank killed", AT_15, AtStep(15, kill_rank(3)), (FAILED, DONE), (0,), ()),
    ("rank killed", SAVING, while_saving(kill_rank(1)), (FAILED, DONE), (0,), SLOW_SAVE),
    ("power cut", "first node", AtStep(15, cut("power", 0)), (LOST, DONE), (0,), ()),
    ("power cut", "second node", AtStep(25, cut("power", 1)), (LOST, DONE), (0,), ()),
    ("power cut", SAVING, while_saving(cut("power", 0)), (LOST, DONE), (0,), SLOW_SAVE),
    ("network cut", "first node", AtStep(15, cut_off_the_first), (LOST, DONE), (0,), ()),
    ("network cut", "second node", AtStep(15, cut("network", 1)), (LOST, DONE), (0,), VERY_SLOW),
    ("slurmd killed", AT_15, AtStep(15, cut("slurmd", 1)), (LOST, DONE), (0,), VERY_SLOW),
    ("scancel", AT_15, AtStep(15, cancel), ("cancelled",), (143,), ()),
    ("scancel", SAVING, while_saving(cancel), ("cancelled",), (143,), SLOW_SAVE),
    ("time limit", AT_15, AtStep(15, say_the_limit_is_near), (LIMIT, DONE), (0,), ()),
    ("time limit", SAVING, while_saving(say_the_limit_is_near), (LIMIT, DONE), (0,), SLOW_SAVE),
    (
        *("time limit", "ranks that ignore it", AtStep(15, say_the_limit_is_near)),
        *((LIMIT, DONE), (0,), ("--deaf", "--seconds", "0.3")),
    ),
    ("error at step 15", "each time", nothing, (FAILED,) * 3, (7, 143), ("--fail-at", "15")),
    ("disk full", SAVING, AtStep(14, fill_disk), (FAILED,) * 3, (1, 143), ()),
    ("script killed", AT_15, AtStep(15, kill_script), (), (137,), ()),
)
LIMITED = tuple(
    Case(
        *("real time limit", f"job {number} of 20", nothing, (LIMIT, DONE), (0,)),
        ("--steps", "300", "--seconds", "0.5"),
        {"time_limit": "00:03:00"},
        nodes=1,
    )
    for number in range(1, 21)
)
_STALL = {"restarts": {"stall_seconds": 20}}
_SOON = "--check-seconds=1 --quiet-seconds=3"


def kill_step_daemons(job: Running) -> None:
    for index in range(2):
        job.kill_step_daemon(index)


GONE = (
    Case(
        *("slurmstepd killed", AT_15, AtStep(15, lambda job: job.kill_step_daemon(1))),
        *((LOST, DONE), (0,), SLOW),
        watchdog=_SOON,
    ),
    Case(
        *("slurmstepd killed", "before the first count", AtStep(1, kill_step_daemons)),
        *((LOST, DONE), (0,), SLOW),
    ),
    Case(
        *("network cut", "as the ranks end", AtStep(54, cut_at_the_end)),
        *((LOST, DONE), (0,), SLOW),
        watchdog=_SOON,
        survived_by=(26, 5),
    ),
)
STALLS = (
    Case(
        *("rank stopped", AT_15, AtStep(15, lambda job: job.signal_rank(0, "STOP"))),
        *((STALLED, DONE), (0,), (), _STALL),
        watchdog=_SOON,
    ),
    Case(
        *("endless loop", "at step 15", nothing, (STALLED, DONE), (0,), ("--loop-at", "15")),
        _STALL,
        watchdog=_SOON,
    ),
)
WATCHED = (*GONE, *STALLS)
_SPARE_NODES = 10  # in place of those that are lost
NODES = 2 * (len(_ROWS) + len(WATCHED)) + len(LIMITED) + _SPARE_NODES
# A full disk is full on every node: here on those two that the job is bound to, the last ones.
_LAST_NODES = {"nodelist": f"train-dy-small-{NODES - 1},train-dy-small-{NODES}"}
CASES = (
    *(Case(*row, keys={"sbatch": _LAST_NODES} if row[0] == "disk full" else {}) for row in _ROWS),
    *WATCHED,
)
