"""Starts a rank that a launcher reaches by ssh as it would be started by Slurm.

    over_ssh.py keep FOLDER COMMAND...   on the first node: what the ranks are to find
    over_ssh.py serve FOLDER SSHD        on every node: the sshd by which the ranks are reached
    over_ssh.py deaf COMMAND...          the launcher, which SIGTERM does not reach
    over_ssh.py run FOLDER               on any node: one rank, with all that was kept
    over_ssh.py interface NODE           the network interface that leads to another node

ssh leaves the job's environment and folder behind, and the launchers paste what they take along
into a remote shell, unquoted or half quoted: a value with a dollar would be run. So they are given
one word, this program's, and the rest lies in FOLDER/rank.json, which only the job's user reads.

A rank ends with its launcher: when the connection is cut, or rank.json is removed or another's, the
rank is told to end, and killed if it does not. The job removes it, or a rank that failed; the job's
next attempt writes another, maybe before an earlier one's rank has looked.
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
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36
TOKEN_BYTES = 16
BEGINNING = len('{"token": "') + 2 * TOKEN_BYTES  # of rank.json, by which an attempt knows its own
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def keep(folder: str, command: list[str]) -> None:
    environment = {name: value for name, value in os.environ.items() if name not in NOT_KEPT}
    here = {"folder": str(pathlib.Path.cwd()), "node": socket.gethostname()}
    token = os.urandom(TOKEN_BYTES).hex()  # first, for it alone is read again and again
    kept = {"token": token, "environment": environment, "command": command, **here}
    file = pathlib.Path(folder, "rank.json")
    file.touch(mode=0o600, exist_ok=False)
    file.write_text(json.dumps(kept))


def serve(folder: str, sshd: str) -> int:
    """An sshd. Told to end, it lets nobody in any more and ends with the last who is in.

    Slurm tells all processes of a step, also those of sshd, and when the step's task has ended, it
    kills what is left: so this is the task, and waits for what sshd leaves behind.
    """
    set_option(PR_SET_CHILD_SUBREAPER, 1)
    file = pathlib.Path(folder, "rank.json")
    own = beginning(file)
    server = subprocess.Popen([sshd, "-D", "-e", "-f", f"{folder}/sshd_config"])
    told: list[bool] = []

    def stop(*_: Any) -> None:
        if not told:
            signal.alarm(GRACE_SECONDS)
            server.kill()
        told.append(True)

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGUSR1, lambda *_: sys.exit(0))  # nobody is in
    signal.signal(signal.SIGALRM, lambda *_: sys.exit(1))
    while someone_is_below():
        if not own or beginning(file) != own:
            stop()
        time.sleep(0.2)
    return 0 if told else 1


def someone_is_below() -> bool:
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
        return True
    return False


def beginning(file: pathlib.Path) -> bytes:
    """Nothing where it is gone. Opened, for NFS may remember for a minute what `stat` asks."""
    with contextlib.suppress(FileNotFoundError), file.open("rb") as opened:
        return opened.read(BEGINNING)
    return b""


def deaf(command: list[str]) -> None:
    """Blocked, for a launcher's own handler would override `ignored`."""
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)
    os.execvp(command[0], command)


def run(folder: str) -> int:
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)  # until they can be handed on
    parent = os.getppid()
    file = pathlib.Path(folder, "rank.json")
    text = file.read_text()
    own, kept = text[:BEGINNING].encode(), json.loads(text)
    environment = {**kept["environment"], **set_by_launcher(os.environ)}
    name_interface(environment, kept)
    os.chdir(kept["folder"])
    rank = subprocess.Popen(kept["command"], env=environment, preexec_fn=become_rank)

    def hand_on(number: int, _frame: Any) -> None:
        tell(rank.pid, number)

    for number in ENDING:
        signal.signal(number, hand_on)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    while not has_ended(rank):
        if os.getppid() != parent or beginning(file) != own:
            return end(rank)
    if rank.returncode and beginning(file) == own:  # the others would wait for this one
        with contextlib.suppress(FileNotFoundError):
            file.unlink()
    return rank.returncode


def has_ended(rank: subprocess.Popen[bytes]) -> bool:
    with contextlib.suppress(subprocess.TimeoutExpired):
        rank.wait(1)
    return rank.returncode is not None


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
    """In the new process: a group of its own, as it is with srun; no signal ignored or blocked."""
    os.setsid()
    for number in ENDING:
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, ENDING)
    set_option(PR_SET_PDEATHSIG, signal.SIGKILL)


def set_option(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value)


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
    if words[0] == "deaf":
        deaf(words[1:])
    if words[0] == "serve":
        return serve(words[1], words[2])
    code = run(words[1])
    return 128 - code if code < 0 else code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
