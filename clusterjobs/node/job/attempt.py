"""Records the attempts of a job, and decides whether another attempt may follow.

    attempt.py begin OPTIONS    when an attempt starts: prints `start` or `stop`
    attempt.py end OPTIONS      when it has ended: prints `restart` or `stop`

The decision is printed on stdout, messages for the log go to stderr. A job script that gets no
decision writes the record itself and does not restart.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from typing import Any, Dict, List, Optional

from attempt_files import (
    Record,
    latest_by_attempt,
    newest_checkpoint,
    read_end,
    read_records,
)

REASONS = (
    *("completed", "failure", "after_failure", "time_limit", "node_failure", "stalled"),
    *("bad_node", "cancelled", "not_started"),
)
# The script requeues the job after these.
RESTARTED = ("time_limit", "failure", "node_failure", "stalled", "bad_node")
# `failure of server`: a role of the job ended before its training.
OF_A_ROLE = "failure of "
MOST_WITHOUT_PROGRESS = 3  # attempts without a newer checkpoint: another one would not get further


def main(arguments: Optional[List[str]] = None) -> int:
    options = _parser().parse_args(arguments)
    job = Job(options)
    print(job.begin() if options.when == "begin" else job.end())
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser()
    parser.add_argument("when", choices=("begin", "end"))
    parser.add_argument("--folder", required=True, help="the job's folder")
    parser.add_argument("--attempt", type=int, required=True, help="1 for the first")
    parser.add_argument("--budget", action="append", default=[], metavar="REASON=COUNT")
    parser.add_argument("--checkpoints", help="the folder of the checkpoints")
    parser.add_argument("--marker", help="a file that names the newest checkpoint")
    parser.add_argument("--newest", help="the newest checkpoint, where the script has found it")
    parser.add_argument("--reason", type=_known)
    parser.add_argument("--exit-code", type=int)
    parser.add_argument("--nodes", default="")
    parser.add_argument("--seconds", type=int)
    return parser


def _known(reason: str) -> str:
    if kind(reason) not in REASONS:
        raise argparse.ArgumentTypeError(f"unknown: {reason}")
    return reason


def kind(reason: Any) -> str:
    """One of REASONS: how a failure is counted does not depend on the role."""
    return "failure" if str(reason).startswith(OF_A_ROLE) else str(reason)


class Job:
    """The attempts of one job, in the files of its folder."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.attempt = options.attempt
        self.budgets = {name: int(count) for name, _, count in _pairs(options.budget)}
        self.log = os.path.join(options.folder, "attempts.jsonl")
        self.checkpoint = options.newest
        if options.newest is None:
            self.checkpoint = newest_checkpoint(options.checkpoints, options.marker)
        self.is_recorded = False
        self.times: Record = {}

    # ---------------------------------------------------------------- begin

    def begin(self) -> str:
        """`start`, or `stop` if this restart exceeds the budget."""
        decision = "start"
        if self._settle():
            decision = "start" if self._may_restart("node_failure") else "stop"
        _remove(self._path(f"watchdog.{self.attempt}"))
        if self.attempt > 1 and decision == "start":
            say(f"attempt {self.attempt}, from checkpoint {self.checkpoint or 'none'}")
        return decision

    def _settle(self) -> bool:
        """Note when this attempt began, and record those before it that could not; whether any."""
        path = self._path("started")
        known = read_started(path).get(self.attempt, {})
        is_first = "submitted" not in known  # an attempt may end before `begin`
        began = known.get("began") or int(time.time())
        submitted = submit_time() if is_first else known["submitted"]
        self.times = {"began": began, "submitted": submitted or None}
        try:
            with open(path, "a", encoding="ascii") as file:
                file.write(f"{self.attempt} {began} {submitted or 0}\n" * is_first)
        except OSError:
            pass  # the disk is full: the record at the end fails, too
        has_lost = self._append_lost_ones()
        if is_first:
            _remove(self._path("data_staged"))
        return has_lost

    def _append_lost_ones(self) -> bool:
        """Record the attempts that could not; whether there are any.

        Slurm requeued the job, since a node was lost, or a user ran `scontrol requeue`: each of
        them ended when Slurm put the next one into the queue.
        """
        records = {one["attempt"]: one for one in self._records()}
        started = read_started(self._path("started"))
        found = False
        for attempt in sorted(one for one in started if one < self.attempt):
            if kind(records.get(attempt, {}).get("reason")) in RESTARTED:
                continue  # the script itself has requeued the job
            times = started[attempt]
            began, ended = times.get("began"), started.get(attempt + 1, {}).get("submitted")
            seconds = ended - began if began and ended and ended >= began else None
            self._append(attempt, "node_failure", None, "", seconds, times)
            found = True
        return found

    # ---------------------------------------------------------------- end

    def end(self) -> str:
        """Record how the attempt ended; `restart` if its reason has budget left."""
        options = self.options
        if max(read_started(self._path("started")), default=0) > self.attempt:
            say("Slurm has started a later attempt: this one is not recorded, and requeues nothing")
            return "stop"
        has_lost = self._settle()
        self._append(
            *(self.attempt, options.reason, options.exit_code),
            *(options.nodes, options.seconds, self.times),
        )
        if not self._may_restart(options.reason):
            return "stop"
        if has_lost and not self._may_restart("node_failure"):
            return "stop"
        say(f"requeued after {options.reason}, from checkpoint {self.checkpoint or 'none'}")
        return "restart"

    def _append(
        self,
        attempt: int,
        reason: str,
        exit_code: Optional[int],
        nodes: str,
        seconds: Optional[int],
        times: Record,
    ) -> None:
        record: Record = {"attempt": attempt, "reason": reason, "checkpoint": self.checkpoint}
        if os.path.exists(self._path("data_staged")):
            record["data_staged"] = True
        record.update(exit_code=exit_code, nodes=nodes, seconds=seconds, ended=int(time.time()))
        record.update(times)
        try:
            with open(self.log, "ab+") as file:
                file.seek(max(0, file.tell() - 1))
                cut_off = file.read(1) not in (b"", b"\n")  # by a full disk
                file.write(b"\n" * cut_off + json.dumps(record).encode() + b"\n")
            self.is_recorded = True
        except OSError as error:
            say(f"{self.log}: {error.strerror}")

    def _may_restart(self, reason: str) -> bool:
        if kind(reason) not in self.budgets:
            return False
        refusal = self._refusal(kind(reason))
        if refusal:
            say(f"no restart: {refusal}")
        return refusal is None

    def _refusal(self, reason: str) -> Optional[str]:
        """Why no other attempt may follow one that ended for `reason`, or None."""
        if not self.is_recorded:
            return f"{self.log} cannot be written"  # else restarts could not be counted
        attempts = latest_by_attempt(self._records())
        used = sum(kind(record["reason"]) == reason for record in attempts)
        if used > self.budgets[reason]:
            budget = self.budgets[reason]
            return f"restarts.{reason} allows {budget}" + (", all used" if budget else "")
        # An attempt that ends at a bad node does not train.
        trained = [record for record in attempts if record["reason"] != "bad_node"]
        latest = trained[-MOST_WITHOUT_PROGRESS:]
        idle = [one for one in latest if one.get("checkpoint") == self.checkpoint]
        if len([one for one in idle if not one.get("data_staged")]) == MOST_WITHOUT_PROGRESS:
            name = self.checkpoint or "none"
            return f"the last two brought no newer checkpoint than {name}"
        return None

    # ---------------------------------------------------------------- files

    def _records(self) -> List[Record]:
        try:
            found: List[Record] = read_records(read_end(self.log))
        except OSError:
            found = []
        return found

    def _path(self, name: str) -> str:
        return os.path.join(self.options.folder, name)


def read_started(path: str) -> Dict[int, Record]:
    """The times of the attempts that have begun, by their numbers, in seconds since 1970.

    A line is `NUMBER BEGAN [SUBMITTED]`. Slurm sets the submit time of a job that it requeues anew.
    """
    try:
        lines = read_end(path).splitlines()
    except OSError:
        return {}
    found: Dict[int, Record] = {}
    for line in lines:
        numbers = [int(word) for word in line.split() if word.isdigit()]
        if numbers and len(numbers) == len(line.split()):
            found[numbers[0]] = dict(zip(("began", "submitted"), numbers[1:]))
    return found


def submit_time() -> Optional[int]:
    """When Slurm last put this job into the queue; None if it does not answer."""
    given = os.environ.get
    job, array = given("SLURM_JOB_ID", ""), given("SLURM_ARRAY_JOB_ID")
    if array:  # of a task of an array, SLURM_JOB_ID may mean the whole array
        job = "{}_{}".format(array, given("SLURM_ARRAY_TASK_ID"))
    asked = ["squeue", "--noheader", "--job=" + job, "--format=%V"]
    in_seconds = dict(os.environ, SLURM_TIME_FORMAT="%s")
    try:
        shown = subprocess.check_output(
            asked, stdin=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=in_seconds, timeout=20
        )
        return int(shown)
    except (OSError, subprocess.SubprocessError, ValueError):
        return None


def _pairs(settings: List[str]) -> List[Any]:
    return [setting.partition("=") for setting in settings]


def _remove(path: str) -> None:
    try:
        os.remove(path)
    except OSError:
        pass  # no file; another error shows when the record is written


def say(message: str) -> None:
    print(f"clusterjobs: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
