"""The processes of an attempt's ranks on one node: counts them, or writes down where they wait.

    watchdog_ranks.py count|stacks FOLDER ATTEMPT    prints how many there are
    watchdog_ranks.py steps FOLDER ATTEMPT           the same of the job's other steps on this node

It knows the ranks by their environment. A process that has overwritten its own (setproctitle), or
whose own may not be read (a file without read permission, prctl), may be one, so it counts.
"""

from __future__ import annotations

import glob
import os
import re
import shutil
import subprocess
import sys
from typing import List

MOST_STACKS = 16  # of processes on a node: each takes py-spy seconds
UNREADABLE = b"?"  # no environment, so that the process counts
PIPES = "TORCH_NCCL_DEBUG_INFO_PIPE_FILE"  # a rank that reads "1" there dumps its flight recorder


def main() -> int:
    what, folder, attempt = sys.argv[1:]
    if what == "steps":
        print(len(steps(os.environ["SLURM_JOB_ID"])), flush=True)
        return 0
    found = ranks(os.environ["SLURM_JOB_ID"], attempt)
    if what == "stacks":
        name = f"stacks.{attempt}.{os.environ.get('SLURMD_NODENAME', 'node')}"
        _write_stacks(os.path.join(folder, name), found)
        _ask_flight_recorders(os.environ.get(PIPES, ""))
    print(len(found), flush=True)
    return 0


def ranks(job: str, attempt: str, proc: str = "/proc") -> List[int]:
    """This user's processes in steps that the script started after its sidecars, without ours."""
    own_step = f"SLURM_STEP_ID={os.environ['SLURM_STEP_ID']}".encode()
    wanted = {f"SLURM_JOB_ID={job}".encode(), f"CLUSTERJOBS_ATTEMPT={attempt}".encode()}
    found = []
    for name in filter(str.isdigit, os.listdir(proc)):
        try:
            if os.stat(f"{proc}/{name}").st_uid != os.getuid():
                continue
            environment = _content(f"{proc}/{name}/environ").split(b"\0")
            command = _content(f"{proc}/{name}/cmdline")
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended; any other error gives no number
        if command.startswith(b"slurmstepd: "):
            continue  # one's own only if root runs the job
        steps = {one for one in environment if one.startswith(b"SLURM_STEP_ID=")} - {own_step}
        is_rank = bool(steps) and wanted <= {*environment}
        if command and (is_rank or not _is_environment(environment)):
            found.append(int(name))
    return found


def steps(job: str, proc: str = "/proc") -> List[str]:
    """The job's other steps that srun has started and for which a slurmstepd runs.

    Raises OSError if this node does not show one's own: then it would not show those either.
    """
    found = set()
    for name in filter(str.isdigit, os.listdir(proc)):
        try:
            command = _content(f"{proc}/{name}/cmdline")
        except (FileNotFoundError, ProcessLookupError):
            continue
        found |= {*re.findall(rb"slurmstepd: \[%s\.(\d+)\]" % job.encode(), command)}
    own = os.environ["SLURM_STEP_ID"].encode()
    if own not in found:
        raise OSError("this node shows no slurmstepd")
    return sorted(one.decode() for one in found - {own})


def _is_environment(words: List[bytes]) -> bool:
    return any(re.match(rb"\w+=", word) for word in words)


def _content(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            return file.read()
    except PermissionError:
        return UNREADABLE


def _write_stacks(path: str, processes: List[int]) -> None:
    """What py-spy says about the Python processes, if this node has it."""
    spy = shutil.which("py-spy")
    if spy is None:
        return
    with open(path, "w", encoding="utf-8") as file:
        for process in [one for one in processes if _is_python(one)][:MOST_STACKS]:
            file.flush()
            command = ["timeout", "--kill-after=1", "20", spy, "dump", "--pid", str(process)]
            subprocess.run(command, stdout=file, stderr=file, stdin=subprocess.DEVNULL, check=False)


def _is_python(process: int) -> bool:
    try:
        return os.path.basename(os.readlink(f"/proc/{process}/exe")).startswith("python")
    except OSError:
        return False


def _ask_flight_recorders(prefix: str) -> None:
    for path in glob.glob(f"{glob.escape(prefix)}*.pipe") if prefix else []:
        try:
            pipe = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError:
            continue  # nobody reads it
        with os.fdopen(pipe, "wb") as file:
            file.write(b"1\n")


if __name__ == "__main__":
    sys.exit(main())
