"""Explains Slurm's reason codes: why a job is pending.

Source: squeue(1), JOB REASON CODES, of Slurm 22.05, 24.11 and 25.11, and slurm.h.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass

from clusterjobs.slurm.queue import ENDED

_WORDS = {
    "None": "the scheduler has not considered it yet",
    "Resources": "no nodes are free yet",
    "Priority": "jobs of higher priority go first",
    "Dependency": "a job that it depends on has not ended",
    "DependencyNeverSatisfied": "a job that it depends on failed: it will never start",
    "JobHeldUser": "held by its user; to release it: scontrol release JOB",
    "JobHeldAdmin": "held by an administrator, or by Slurm after a failed start",
    "JobHoldMaxRequeue": "held: it was requeued too often",
    "BeginTime": "its start time is in the future: --begin, or Slurm has requeued it",
    "JobArrayTaskLimit": "its array has reached its limit of running tasks",
    "PartitionTimeLimit": "its time limit is above that of the partition",
    "PartitionNodeLimit": "it requests more nodes than the partition allows",
    "PartitionDown": "the partition is down",
    "PartitionInactive": "the partition starts no jobs now",
    "PartitionConfig": "no nodes of the partition can run it",
    "BadConstraints": "no nodes match its request: it will never start",
    "ReqNodeNotAvail": "nodes that it needs are down, drained or reserved",
    "NodeDown": "a node that it needs is down",
    "Reservation": "its reservation has not started",
    "ReservationDeleted": "its reservation was deleted",
    "Reserved for maintenance": "the nodes are reserved for maintenance",
    "Licenses": "a license that it needs is in use",
    "Cleaning": "its last attempt is being cleaned up",
    "Prolog": "the prolog of its nodes is running",
    "InvalidAccount": "its account is not valid",
    "InvalidQOS": "its QOS is not valid",
    "AccountNotAllowed": "its account may not use the partition",
    "AccountingPolicy": "a limit of its account",
    "QOSNotAllowed": "its QOS may not be used here",
    "QOSJobLimit": "its QOS has reached its limit of jobs",
    "QOSResourceLimit": "a limit of its QOS is reached",
    "QOSTimeLimit": "its time limit is above that of its QOS",
    "QOSUsageThreshold": "the usage threshold of its QOS is exceeded",
    "AssociationJobLimit": "its account has reached its limit of jobs",
    "AssociationResourceLimit": "a limit of its account is reached",
    "AssociationTimeLimit": "its time limit is above that of its account",
    "JobLaunchFailure": "it could not be launched",
    "RaisedSignal": "it got a signal",
    "SystemFailure": "Slurm, a file system or the network failed",
    "SchedDefer": "the scheduler has not considered it yet",
    "FedJobLock": "another cluster of the federation is starting it",
    "BurstBufferOperation": "an operation of its burst buffer failed",
    "BurstBufferResources": "its burst buffer is full",
    "BurstBufferStageIn": "its burst buffer is being filled",
    "FrontEndDown": "no front end node is up",
    "NonZeroExitCode": "it ended with an exit code",
    "OutOfMemory": "it needed too much memory",
    "TimeLimit": "it reached its time limit",
    "InactiveLimit": "it was inactive for too long",
    "DeadLine": "it cannot end before its deadline",
    "MaxRequeue": "it was requeued too often",
    "MaxBBConsumed": "its burst buffer is full",
    "ResourceRequestDenied": "its request was refused",
}
# squeue prints some reasons as sentences; compared in lower case, by their beginnings.
_SENTENCES = {
    "launch failed requeued held": "held by Slurm: its launch failed, and it was requeued; "
    "to release it: scontrol release JOB",
    "job requeued in held state": "held after a requeue; to release it: scontrol release JOB",
    "nodes required for job are down": "nodes that it needs are down, drained or reserved for "
    "jobs of higher priority",
    "reqnodenotavail": "nodes that it needs are down, drained or reserved",
}
_LIMIT = re.compile(r"(?P<whose>QOS|Assoc)(Grp|Max|Min)[A-Za-z]+")
_WHOSE = {"QOS": "its QOS", "Assoc": "its account"}
_OF = {  # the first one that is a part of the reason
    "WallDuration": "time",
    "Wall": "time",
    "CpuMinutes": "CPU minutes",
    "CPUMinutes": "CPU minutes",
    "CPURunMinutes": "CPU minutes of running jobs",
    "CpuRun": "CPU minutes of running jobs",
    "Cpu": "CPUs",
    "CPU": "CPUs",
    "GRES": "GPUs or other devices",
    "Gres": "GPUs or other devices",
    "Mem": "memory",
    "Node": "nodes",
    "Submit": "submitted jobs",
    "Jobs": "jobs",
    "Job": "jobs",
    "Billing": "billing units",
    "License": "licenses",
    "BB": "burst buffers",
}
_PER = {
    "PerUser": "per user",
    "PerJob": "per job",
    "PerAccount": "per account",
    "PerNode": "per node",
}


_JOBS = re.compile(r":(\d+(?:_\d+)?)")


def in_words(reason: str, dependency: str = "", specs: Mapping[str, str] = {}) -> str:
    """The reason in words, followed by Slurm's own; an unknown one as Slurm prints it.

    `dependency`: of the job, `afterok:12_*(unfulfilled)`. `specs`: of the jobs that it needs, by
    their ids, as far as they are known.
    """
    text = reason.lower().replace("_", " ").strip("()")
    sentence = next((said for start, said in _SENTENCES.items() if text.startswith(start)), "")
    words = _WORDS.get(reason) or sentence or _limit(reason)
    if reason == "Dependency" and (jobs := list(dict.fromkeys(_JOBS.findall(dependency)))):
        words = f"{words}: {', '.join(jobs)}"
        found = [specs.get(job) or specs.get(job.partition("_")[0]) for job in jobs]
        if any(found):
            pairs = zip(jobs, found, strict=True)
            named = (f"{spec} (job {job})" if spec else f"job {job}" for job, spec in pairs)
            words = f"needs {', '.join(named)}"
    return f"{words} ({reason})" if words else reason


def _limit(reason: str) -> str:
    """Compose the text from parts: QOSMaxGRESPerUser, AssocGrpCPUMinutesLimit and many more."""
    match = _LIMIT.fullmatch(reason)
    if not match:
        return ""
    of = next((f"of {said}" for part, said in _OF.items() if part in reason), "")
    per = next((said for part, said in _PER.items() if part in reason), "")
    return " ".join(filter(None, [_WHOSE[match["whose"]], "has a limit", of, per]))


# ------------------------------------------------------------------ jobs
# Parses the output of `scontrol show job`.


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
        """How the job ended; None while it has not reached a final state."""
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
