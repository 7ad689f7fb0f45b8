"""Ends ranks that have stalled, and a launcher that waits for ranks that are gone.

It runs on the first node while the process `--ranks` lives, and writes the reason into the file
`watchdog.ATTEMPT` of the job's folder just before it ends that process. It never acts on a missing
answer: a Slurm that does not respond, or a node that cannot be asked, proves nothing.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import time
from typing import Any, List, Optional, Tuple

from attempt import say
from attempt_files import newest_checkpoint
from watchdog_ranks import PIPES

DEAD_ANSWERS = 3  # in a row: the launcher may be about to end
FLIGHT_RECORD_SECONDS = 5  # in which PyTorch writes its record
# Between two questions to the nodes: each is a step of the job, about 100 a day at most.
LONGEST_PAUSE = 900.0
LONGEST_PAUSE_WITH_PROGRESS = 3600.0
SRUN = (
    *("srun", "--overlap", "--cpu-bind=none", "--mpi=none", "--input=none", "--chdir=/"),
    *("--kill-on-bad-exit=0", "--ntasks-per-node=1", "--job-name=watchdog"),
)


def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    watchdog = Watchdog(options)
    while watchdog.ranks_run():
        watchdog.check()
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("--ranks", type=int, required=True, help="the process of the launcher")
    parser.add_argument("--folder", required=True, help="the job's folder")
    parser.add_argument("--job", required=True, help="the job's id for scancel")
    parser.add_argument("--attempt", required=True)
    parser.add_argument("--nodes", type=int, required=True)
    parser.add_argument("--nodelist", help="which nodes of the job; by default, all")
    parser.add_argument("--stall-seconds", type=float, help="without progress; off by default")
    parser.add_argument("--checkpoints", help="the folder of the checkpoints")
    parser.add_argument("--marker", help="a file that names the newest checkpoint")
    parser.add_argument("--check-seconds", type=float, default=20, help="between two checks")
    parser.add_argument("--quiet-seconds", type=float, default=60, help="until nodes are asked")
    parser.add_argument("--kill-seconds", type=float, default=20, help="from SIGTERM to SIGKILL")
    return parser


class Watchdog:
    """What is known about the ranks of one attempt."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        # Seconds, without the time that this process itself was stopped or waited for a disk.
        self.age = 0.0
        self.idle = 0.0  # without progress
        self.state: Tuple[Any, ...] = ()  # of what shows progress
        self.have_lived = False  # the ranks: an image may be pulled for long before they start
        self.dead_answers = 0
        self.asked = 0.0  # the age at the last question
        self.pause = options.check_seconds  # until the next; it grows, whatever the progress

    def ranks_run(self) -> bool:
        try:
            os.kill(self.options.ranks, 0)
        except OSError:
            return False
        return True

    def check(self) -> None:
        """Wait for one interval, then act on what is known."""
        stall = self.options.stall_seconds
        pause = min(self.options.check_seconds, (stall or 1000) / 4)
        started = time.monotonic()
        while self.ranks_run() and time.monotonic() - started < pause:
            time.sleep(min(pause, 1))  # it must not outlive the ranks, and hold the log open
        if not self.ranks_run():
            return
        state = self._progress()
        passed = min(time.monotonic() - started, 2 * pause)
        self.age += passed
        self.idle += passed
        if state != self.state:
            self.state, self.idle = state, 0.0
        if stall and self.idle >= stall:
            self._end_stall(f"no progress for {stall:.0f} s (restarts.stall_seconds)")
        elif self._is_question_due():
            self._ask_nodes()

    def _is_question_due(self) -> bool:
        """In a silence; at times also without one, since a sidecar may fill the log."""
        is_silent = self.idle >= self.options.quiet_seconds or not self.have_lived
        pause = self.pause if is_silent else LONGEST_PAUSE_WITH_PROGRESS
        return self.dead_answers > 0 or self.age - self.asked >= pause

    def _progress(self) -> Tuple[Any, ...]:
        """What changes while the training does: the log first, heartbeat, checkpoints."""
        options = self.options
        files = ["job.log", "heartbeat"]
        paths = [os.path.join(options.folder, name) for name in files] + [options.marker]
        return (
            *(_size_and_time(path) for path in paths if path),
            newest_checkpoint(options.checkpoints, None),
        )

    def _ask_nodes(self) -> None:
        """End the launcher once the nodes have said often enough that no rank is left."""
        self.asked, alive = self.age, self._number("count")
        if alive == 0 and (self.have_lived or self._has_lost_step()):
            self.dead_answers += 1
            if self.dead_answers >= DEAD_ANSWERS:
                self._stop("node_failure", "no rank is left on any node, but its launcher waits")
            return
        self.have_lived |= bool(alive)
        self.dead_answers = 0
        self.pause = min(max(2 * self.pause, self.options.quiet_seconds), LONGEST_PAUSE)

    def _has_lost_step(self) -> bool:
        """Whether Slurm has a step for the ranks, and no node has a slurmstepd for any.

        Ranks that nobody has seen may still start; but slurmstepd starts them, and pulls the image.
        """
        words = ["squeue", "--steps", "--noheader", "--format=%i %j"]
        words += [f"--job={os.environ['SLURM_JOB_ID']}"]
        found = [line.split() for line in _output(words, timeout=30).splitlines()]
        ours = [
            one for one in found if one[0].rpartition(".")[2].isdigit() and "watchdog" not in one
        ]
        return bool(ours) and self._number("steps") == 0

    def _number(self, what: str) -> Optional[int]:
        """The number of processes or steps; None unless every node has answered."""
        answers = self._on_nodes(what, timeout=60)
        return sum(answers) if len(answers) == self.options.nodes else None

    def _on_nodes(self, what: str, timeout: float) -> List[int]:
        """The numbers that watchdog_ranks.py prints on the nodes."""
        options, nodes = self.options, str(self.options.nodes)
        program = os.path.join(options.folder, "watchdog_ranks.py")
        command = (sys.executable, "-BEsS", program, what, options.folder, options.attempt)
        where = [f"--nodelist={options.nodelist}"] if options.nodelist else []
        srun = (*SRUN, f"--nodes={nodes}", f"--ntasks={nodes}", *where)
        output = _output([*srun, *command], timeout)
        return [int(line) for line in output.split() if line.isdigit()]

    def _end_stall(self, why: str) -> None:
        """Stop the ranks, unless they go on or end while their stacks are taken."""
        has_recorders = bool(os.environ.get(PIPES))
        self._on_nodes("stacks", timeout=90)
        time.sleep(FLIGHT_RECORD_SECONDS if has_recorders else 0)
        first = 1 if has_recorders else 0  # without the log, to which the recorders print
        if self._progress()[first:] == self.state[first:]:
            self._stop("stalled", why)
        elif self.ranks_run():
            say(f"{why} until their stacks were taken: the ranks go on")

    def _stop(self, reason: str, why: str) -> None:
        """End the ranks: the script reads the reason, and Slurm ends the rest with the job."""
        options = self.options
        if not self.ranks_run():
            return  # a reason would make a restart of a training that has completed
        say(f"{why}: the ranks are stopped")
        path = os.path.join(options.folder, f"watchdog.{options.attempt}")
        try:
            with open(path, "w", encoding="ascii") as file:
                file.write(f"{reason}\n")
        except OSError as error:
            say(f"the reason is not recorded: {error.strerror}")
        _output(["scancel", "--signal=TERM", options.job], timeout=30)
        end = time.monotonic() + options.kill_seconds
        while self.ranks_run() and time.monotonic() < end:
            time.sleep(0.2)
        try:
            os.kill(options.ranks, signal.SIGKILL)
        except OSError:
            pass  # they have ended
        sys.exit(0)


def _size_and_time(path: str) -> Tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError:
        return (-1, 0)
    return (found.st_size, found.st_mtime_ns)


def _output(command: List[str], timeout: float) -> str:
    """stdout; "" if the command fails or does not end in time."""
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=timeout,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.decode(errors="replace")


if __name__ == "__main__":
    sys.exit(main())
