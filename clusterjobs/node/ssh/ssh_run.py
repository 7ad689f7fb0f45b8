"""Started by a launcher on a node: asks the node's ssh_serve.py to run a rank, and waits for it.

    ssh_run.py NAME FILE    the command in FILE, each word ended by a zero byte
    ssh_run.py NAME shell   the command that was sent to sshd
    ssh_run.py NAME hold    no command: keeps the node until the input ends

NAME is the name of ssh_serve.py's socket. A rank gets this process's input and output, and the
variables that its launcher has set; everything else comes from the job.
"""

from __future__ import annotations

import array
import contextlib
import json
import os
import pathlib
import select
import signal
import socket
import struct
import sys
import time
from typing import Any

# The variables that launchers and sshd set for each rank.
LAUNCHER_SETS = (
    *("CROSS_RANK", "CROSS_SIZE", "CUDA_VISIBLE_DEVICES", "LOCAL_RANK", "LOCAL_SIZE"),
    *("LOCAL_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "NODE_RANK", "RANK", "WORLD_SIZE"),
    *("SSH_CONNECTION", "HOROVOD_"),
)
ENDING = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


def block_signals() -> None:
    """Block signals in each process between ssh_serve.py and a rank.

    Slurm signals every process of a step, and these must not end before the rank has saved. They
    are blocked, not ignored, because the programs install handlers of their own.
    """
    signal.pthread_sigmask(signal.SIG_BLOCK, ENDING)


def connect(name: str) -> socket.socket:
    """Connect to ssh_serve.py. It may not listen yet if the sshd is not the job's."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    for _ in range(600):
        if not connection.connect_ex(f"\0{name}"):
            if peer_of(connection) != os.getuid():  # any process can take the name
                sys.exit(f"clusterjobs: another user answers as {name} on {socket.gethostname()}")
            return connection
        time.sleep(0.1)
    sys.exit(f"clusterjobs: {name} does not answer on {socket.gethostname()}")


def peer_of(connection: socket.socket) -> int:
    """The user number of the process at the other end."""
    peer = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12)
    return int(struct.unpack("3i", peer)[1])


def command_of(what: str) -> list[str]:
    """The command; empty for `hold`. On SIGTERM, bash waits for its child, which gets it, too."""
    if what == "shell":
        asked = os.environ.get("SSH_ORIGINAL_COMMAND", "exec bash")
        return ["bash", "-c", 'trap : TERM; eval "$0"', asked]
    words = b"" if what == "hold" else pathlib.Path(what).read_bytes()
    return [os.fsdecode(word) for word in words.split(b"\0")[:-1]]


def send_request(connection: socket.socket, command: list[str]) -> None:
    own = {k: v for k, v in os.environ.items() if k.startswith(LAUNCHER_SETS)}
    request = json.dumps({"command": command, "environment": own}).encode()
    files = array.array("i", [0, 1, 2]).tobytes()
    connection.sendmsg([request], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, files)])


def receive_request(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """Receive a request with its standard input, output and error."""
    files = array.array("i")
    data, rights, _, _ = connection.recvmsg(1 << 20, socket.CMSG_SPACE(3 * files.itemsize))
    for _, _, found in rights:
        files.frombytes(found)
    return json.loads(data.decode()), list(files)


def main(name: str, what: str) -> int:
    block_signals()
    connection = connect(name)
    send_request(connection, command_of(what))
    if what == "hold":
        sys.stdout.write("held\n")
        sys.stdout.flush()
        select.select([0, connection.fileno()], [], [])  # ready when one of them is closed
        return 0
    with contextlib.suppress(OSError):
        return ord(connection.recv(1) or b"\1")
    return 1  # ssh_serve.py has ended


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
