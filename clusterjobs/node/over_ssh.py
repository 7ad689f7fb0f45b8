"""Starts a rank that a launcher reaches by ssh as it would be started by Slurm.

    over_ssh.py keep FOLDER COMMAND...   on the first node: what the ranks are to find
    over_ssh.py run FOLDER               on any node: one rank, with all that was kept
    over_ssh.py interface NODE           the network interface that leads to another node

ssh leaves the job's environment and folder behind, and the launchers paste what they take along
into a remote shell, unquoted or half quoted: a value with a dollar would be run. So they are given
one word, this program's, and the rest lies in FOLDER/rank.json, which only the job's user reads.

A rank ends with its launcher: when the connection is cut, or the job removes FOLDER, the rank is
told to end, and killed if it does not.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import json
import os
import pathlib
import signal
import socket
import struct
import subprocess
import sys
import time
from typing import Any, Mapping

# What a launcher sets for each rank; all else is the job's.
LAUNCHER_SETS = (
    *("CROSS_RANK", "CROSS_SIZE", "CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "LOCAL_SIZE"),
    *("LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "RANK", "WORLD_SIZE"),
)
LAUNCHER_PREFIXES = ("HOROVOD_",)
# What the batch script has for itself: as a rank's it would be wrong.
NOT_KEPT = (
    *("CUDA_VISIBLE_DEVICES", "HOSTNAME", "SLURMD_NODENAME", "SLURM_GTIDS", "SLURM_LOCALID"),
    *("SLURM_NODEID", "SLURM_PROCID", "SLURM_TASK_PID"),
)
GRACE_SECONDS = 25  # below KillWait's default, 30 s
SIOCGIFADDR = 0x8915  # Linux: ioctl that asks for an interface's address
PR_SET_PDEATHSIG = 1


def keep(folder: str, command: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in NOT_KEPT}
    here = {"folder": str(pathlib.Path.cwd()), "node": socket.gethostname()}
    kept = {"environment": environment, "command": command, **here}
    file = pathlib.Path(folder, "rank.json")
    file.touch(mode=0o600, exist_ok=False)
    file.write_text(json.dumps(kept))


def run(folder: str) -> int:
    parent = os.getppid()
    file = pathlib.Path(folder, "rank.json")
    kept = json.loads(file.read_text())
    environment = {**kept["environment"], **set_by_launcher(os.environ)}
    name_interface(environment, kept)
    os.chdir(kept["folder"])
    rank = subprocess.Popen(kept["command"], env=environment, preexec_fn=become_rank)

    def hand_on(number: int, _frame: Any) -> None:
        tell(rank.pid, number)

    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hand_on)
    while rank.poll() is None:
        if os.getppid() != parent or not file.exists():
            return end(rank)
        time.sleep(0.2)
    return rank.returncode


def set_by_launcher(environment: Mapping[str, str]) -> dict[str, str]:
    return {
        name: value
        for name, value in environment.items()
        if name in LAUNCHER_SETS or name.startswith(LAUNCHER_PREFIXES)
    }


def name_interface(environment: dict[str, str], kept: Mapping[str, Any]) -> None:
    """horovodrun gives all ranks the name that the first node's interface has; names differ."""
    name, own = "HOROVOD_GLOO_IFACE", kept["environment"]
    if name in environment and socket.gethostname() != kept["node"]:
        environment[name] = own.get(name) or interface(own["MASTER_ADDR"])


def become_rank() -> None:
    """In the new process: a group of its own, as it is with srun; no signal ignored."""
    os.setsid()
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def end(rank: subprocess.Popen[bytes]) -> int:
    tell(rank.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        rank.wait(GRACE_SECONDS)
    tell(rank.pid, signal.SIGKILL)  # the group: what the rank itself has started, too
    return rank.wait()


def tell(group: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, number)


def interface(node: str) -> str:
    """The name of the interface over which this node and that one talk."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
        asking.connect((node, 9))  # nothing is sent: the kernel only chooses the way
        own = asking.getsockname()[0]
        for _, name in socket.if_nameindex():
            request = struct.pack("256s", name.encode())
            try:
                answer = fcntl.ioctl(asking.fileno(), SIOCGIFADDR, request)
            except OSError:
                continue  # an interface without an address
            if socket.inet_ntoa(answer[20:24]) == own:
                return name
    raise SystemExit(f"clusterjobs: no interface here has the address {own}")


def main(words: list[str]) -> int:
    if words[0] == "keep":
        keep(words[1], words[2:])
        return 0
    if words[0] == "interface":
        sys.stdout.write(f"{interface(words[1])}\n")
        return 0
    code = run(words[1])
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
