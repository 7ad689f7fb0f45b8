"""Starts the ranks of one node at the request of ssh_run.py.

The ranks are children of this process, a task of Slurm, and inherit its environment and folder,
even if the sshd is not the job's. SIGTERM is forwarded to them. If a rank fails, or the first node
closes the connection by which it holds this node, all ranks of the node are ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from typing import Any, Callable

from ssh_run import peer_of, receive_request

GRACE_SECONDS = 25  # less than the default of Slurm's KillWait, 30 s
POLL_SECONDS = 0.2
# They describe this process, a task of Slurm, but not its ranks.
OF_THE_TASK = (
    *("PMI", "SRUN_", "SLURM_CPU_BIND", "SLURM_DISTRIBUTION", "SLURM_GTIDS", "SLURM_LAUNCH"),
    *("SLURM_LOCALID", "SLURM_NPROCS", "SLURM_NTASKS", "SLURM_PROCID", "SLURM_SRUN"),
    *("SLURM_STEP", "SLURM_TASK"),
)


class Node:
    """The ranks of this node. Each connection has a thread, which lives as long as its request."""

    def __init__(self) -> None:
        self.environment = {k: v for k, v in os.environ.items() if not k.startswith(OF_THE_TASK)}
        self.is_ending = False
        self.code = 0

    def serve(self, listening: socket.socket) -> int:
        """Serve requests until the node and all threads have ended; return the exit code."""
        files: list[Any] = [listening, 0]
        while not self.is_ending:
            ready = select.select(files, [], [], POLL_SECONDS)[0]
            if listening in ready:
                self.start(self.answer, listening.accept()[0])
            if 0 in ready and not os.read(0, 1024):
                return 1  # the job's script, or the container's client, has ended
        last = time.monotonic() + GRACE_SECONDS + 3
        while threading.active_count() > 1 and time.monotonic() < last:
            time.sleep(POLL_SECONDS)
        return self.code

    def start(self, function: Callable[..., None], *given: Any) -> None:
        """Run it in a thread. An error there ends the node."""

        def guarded() -> None:
            try:
                function(*given)
            except Exception as error:
                self.fail(127, f"{type(error).__name__}: {error}")

        threading.Thread(target=guarded, daemon=True).start()

    def end(self, *_: Any) -> None:
        self.is_ending = True

    def fail(self, code: int, why: str) -> None:
        if not self.is_ending:
            sys.stderr.write(f"clusterjobs: {socket.gethostname()}: {why}\n")
            self.code = code
        self.end()

    def watch(self, process: subprocess.Popen[bytes], name: str) -> None:
        """End the node when this process ends; kill it when the node ends."""
        while not self.is_ending:
            if process.poll() is not None:
                self.fail(1, f"{name} ended with {process.returncode}")
            time.sleep(POLL_SECONDS)
        process.kill()

    def answer(self, connection: socket.socket) -> None:
        with connection:
            if peer_of(connection) != os.getuid():
                return  # any process can connect
            request, files = receive_request(connection)
            if not request["command"]:
                self.wait(connection, files[1], lambda: True)
                self.end()
            else:
                code = self.run_rank(request, files, connection)
                with contextlib.suppress(OSError):  # ssh_run.py may have ended
                    connection.send(bytes([code]))
            for file in files:
                os.close(file)

    def run_rank(self, request: Any, files: list[int], connection: socket.socket) -> int:
        streams: Any = dict(zip(("stdin", "stdout", "stderr"), files))
        streams["env"] = {**self.environment, **request["environment"]}
        rank = subprocess.Popen(request["command"], start_new_session=True, **streams)
        self.wait(connection, files[1], lambda: rank.poll() is None)
        if rank.returncode is None:
            return end_rank(rank)
        code = exit_code(rank)
        if code:
            self.fail(code, f"a rank ended with {code}")
        return code

    def wait(self, connection: socket.socket, output: int, is_running: Callable[[], bool]) -> None:
        """Wait for the rank; end it when the node, ssh_run.py or the reader of its output ends."""
        cut = select.poll()
        for file in (connection.fileno(), output):
            cut.register(file, 0)  # ready for reading when the other end is closed
        while is_running() and not self.is_ending and not cut.poll(POLL_SECONDS * 1000):
            pass


def end_rank(rank: subprocess.Popen[bytes]) -> int:
    os.killpg(rank.pid, signal.SIGTERM)
    with contextlib.suppress(subprocess.TimeoutExpired):
        rank.wait(GRACE_SECONDS)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(rank.pid, signal.SIGKILL)  # with the processes that the rank has started
    return exit_code(rank)


def exit_code(process: subprocess.Popen[bytes]) -> int:
    code = process.wait()
    return 128 - code if code < 0 else code
