"""A program on a terminal of its own, for what it does only there: questions, Ctrl-C."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import subprocess
import termios
import time
from collections.abc import Sequence
from types import TracebackType

_SECONDS = 120


class Terminal:
    """Starts the program in the foreground of a new terminal; kills it at the end of the block."""

    def __init__(self, command: Sequence[str]) -> None:
        self.said = ""
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            command,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(theirs)

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def read_until(self, text: str) -> None:
        """Wait until the program has printed it, after what was waited for before."""
        end = time.monotonic() + _SECONDS
        while text not in self.said:
            assert time.monotonic() < end, self.said
            assert self._read(), f"it ended without {text!r}: {self.said}"
        self.said = self.said.partition(text)[2]

    def write(self, text: str) -> None:
        """Type it; \\x03 is Ctrl-C."""
        os.write(self._ours, text.encode())

    def wait(self, again: str = "") -> int:
        """Wait until it has ended, and return its exit code.

        `again` is typed again and again: Python loses a Ctrl-C in the moment before it reads.
        """
        end = time.monotonic() + _SECONDS
        while self._read(again):
            assert time.monotonic() < end, self.said
        return self._process.wait(_SECONDS)

    def _read(self, again: str = "") -> bool:
        """Read what there is within a second; false if the program has closed the terminal."""
        if not select.select([self._ours], [], [], 1)[0]:
            self.write(again)
            return True
        with contextlib.suppress(OSError):  # EIO: nobody has it open any more
            if data := os.read(self._ours, 1 << 16):
                self.said += data.decode(errors="replace")
                return True
        return False
