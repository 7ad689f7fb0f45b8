"""Parses the output of `scontrol show job`.

Pure functions. This module knows Slurm's names of states; it must not run commands.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# Slurm's final base states. A requeued job is PENDING again.
ENDED = frozenset(
    {
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "TIMEOUT",
    }
)


@dataclass(frozen=True)
class JobEnd:
    """How a job ended. `exit_code` is as in a shell: 128 + N for signal N."""

    state: str
    exit_code: int


@dataclass(frozen=True)
class Job:
    """The current state of one job in Slurm."""

    job_id: str
    state: str
    reason: str
    nodes: str
    restarts: int
    stdout: str
    exit_status: tuple[int, int]

    @property
    def end(self) -> JobEnd | None:
        """None while the job has not reached a final state."""
        if self.state not in ENDED:
            return None
        status, signal = self.exit_status
        failed = 0 if self.state == "COMPLETED" else 1
        return JobEnd(self.state, status or (128 + signal if signal else failed))


def parse_job(shown: str) -> Job:
    """The first job in the output of `scontrol --oneliner show job`."""
    line = shown.splitlines()[0]
    status, _, signal = _value(line, "ExitCode").partition(":")
    return Job(
        job_id=_value(line, "JobId"),
        state=_value(line, "JobState"),
        reason=_value(line, "Reason"),
        nodes=_value(line, "NodeList"),
        restarts=int(_value(line, "Restarts") or 0),
        stdout=_log_file(line),
        exit_status=(int(status or 0), int(signal or 0)),
    )


def _value(line: str, key: str) -> str:
    match = re.search(rf"(?:^| ){key}=(\S*)", line)
    return match[1] if match else ""


def _log_file(line: str) -> str:
    """StdOut may contain spaces, and in newer Slurm the unexpanded pattern given to sbatch."""
    match = re.search(r" StdOut=(.*?)(?: \w+=|\s*$)", line)
    pattern = match[1] if match else ""
    names = {
        "j": _value(line, "JobId"),
        "A": _value(line, "ArrayJobId") or _value(line, "JobId"),
        "a": _value(line, "ArrayTaskId"),
        "x": _value(line, "JobName"),
        "u": _value(line, "UserId").partition("(")[0],
    }
    return re.sub(r"%([jAaxu])", lambda found: names[found[1]], pattern)
