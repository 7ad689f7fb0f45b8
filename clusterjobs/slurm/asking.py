"""Calls a program of Slurm, with an end to what it may print and to how long it may take."""

import os
import signal
import subprocess
import threading
from collections.abc import Sequence
from contextlib import suppress
from typing import IO, Any, NamedTuple

from clusterjobs.errors import InputError, Problem

MAX_OUTPUT = 1 << 28  # bytes: more than squeue's rows of 500,000 jobs
MAX_ERRORS = 1 << 16
PATIENCE = 300.0  # seconds: Slurm's own timeouts and attempts end before
_REST_SECONDS = 2.0  # for output of a program that has ended: a child of it may keep the pipe open


class SlurmError(InputError):
    """Slurm's controller does not answer, or with an error."""


class Answer(NamedTuple):
    """How a program ended, and what it printed."""

    code: int
    stdout: str
    stderr: str


def ask(
    command: Sequence[str], patience: float | None = None, stdin: bytes = b"", **options: Any
) -> Answer:
    """The program's answer. `options`: of Popen. Ctrl-C does not reach the program.

    Raises FileNotFoundError, and SlurmError if it takes longer than `patience` or prints too much.
    """
    patience = PATIENCE if patience is None else patience
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        **options,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    output = _Reader(process.stdout, MAX_OUTPUT, process)
    errors = _Reader(process.stderr, MAX_ERRORS)
    end = threading.Thread(target=process.wait)
    pipes = (output, errors, threading.Thread(target=_write, args=(process.stdin, stdin)))
    for thread in (*pipes, end):
        thread.daemon = True  # on a dead file system, a program cannot be killed
        thread.start()
    try:
        end.join(patience)
        has_ended = not end.is_alive()
        for thread in pipes if has_ended else ():
            thread.join(_REST_SECONDS)
    except BaseException:
        _kill(process)
        end.join(_REST_SECONDS)
        raise
    if not has_ended:
        _kill(process)
        end.join(_REST_SECONDS)
        raise _error(command, f"Slurm does not answer in {patience:.0f} s")
    if output.is_full:
        raise _error(command, f"it prints more than {MAX_OUTPUT:,} bytes")
    return Answer(process.returncode, output.text(), errors.text())


class _Reader(threading.Thread):
    """Reads all that a program prints, and keeps its first bytes; `ended`, if there are more."""

    def __init__(
        self, stream: IO[bytes], most: int, ended: "subprocess.Popen[bytes] | None" = None
    ) -> None:
        super().__init__()
        self._stream, self._most, self._ended = stream, most, ended
        self._kept, self.is_full = bytearray(), False

    def run(self) -> None:
        with self._stream as stream:
            while piece := os.read(stream.fileno(), 1 << 16):
                room = self._most - len(self._kept)
                self._kept += piece[:room]
                if len(piece) > room and self._ended:
                    self.is_full = True
                    _kill(self._ended)
                    return

    def text(self) -> str:
        return bytes(self._kept).decode(errors="replace")


def _write(stream: IO[bytes], text: bytes) -> None:
    with suppress(BrokenPipeError), stream:
        stream.write(text)


def _kill(process: "subprocess.Popen[bytes]") -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _error(command: Sequence[str], what: str) -> SlurmError:
    return SlurmError([Problem(f"{command[0]}: {what}")])
