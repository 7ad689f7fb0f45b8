"""Messages of the staging programs: progress, status, and errors that name a file."""

from __future__ import annotations

import errno
import json
import os
import shlex
import signal
import sys
import time
from typing import Any, Callable, Collection

REPORT_SECONDS = 5
EXPORT_RECORD = ".exported-"  # the start of the names of hidden files that are no data
_REFUSALS = (errno.EACCES, errno.EPERM, errno.ENAMETOOLONG)  # a retry gets the same
_UNITS = ("B", "kB", "MB", "GB", "TB", "PB")


class StageError(Exception):
    """What went wrong, with the name of the file."""


class SourceError(StageError):
    """The source or the target cannot be used: another attempt would get the same answer."""


class LeaseLostError(StageError):
    """Another job took over: the partial copy is now its own."""


class Stopped(BaseException):
    """SIGTERM or SIGINT was received."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.exit_code = 128 + number


def raise_on_signals() -> None:
    """From now on SIGTERM and SIGINT raise Stopped, once."""

    def stop(number: int, _frame: Any) -> None:
        signal.signal(number, signal.SIG_IGN)
        raise Stopped(number)

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, stop)


def printable(path: str) -> str:
    """A file name for the log: bytes that are not text, and line breaks, are escaped."""
    text = path.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
    return text if text.isprintable() else repr(text)[1:-1]


def quoted(path: str) -> str:
    """A file name for a command in the log."""
    return shlex.quote(printable(path))


def os_failure(path: str, error: OSError) -> StageError:
    """The system's message about a file."""
    kind = SourceError if error.errno in _REFUSALS else StageError
    return kind("%s: %s" % (printable(path), error.strerror or error))


def log(text: str) -> None:
    """Write one line to the log at once."""
    sys.stdout.write("clusterjobs: %s\n" % text)
    sys.stdout.flush()


def report_status(what: str, text: str) -> None:
    """Write a status to the log, and to the job's folder for `clusterjobs status`."""
    log("%s: %s" % (what, text))
    record_status(what, text)


def record_status(what: str, text: str) -> None:
    """Write a status to the job's folder alone."""
    folder = os.environ.get("STAGE_DIR")
    if folder:
        node = os.environ.get("SLURMD_NODENAME", "") if "SLURM_STEP_ID" in os.environ else ""
        line = {"node": node, "what": what, "said": text, "time": int(time.time())}
        try:
            with open(os.path.join(folder, "data.jsonl"), "a") as file:
                file.write(json.dumps(line) + "\n")
        except OSError:  # a full disk: the line is in the log
            return


def report_files(what: str, state: str, sizes: Collection[int]) -> None:
    """Report a status with the number of files and their size."""
    total = format_size(sum(sizes))
    report_status(what, "%s, %s, %s" % (state, plural(len(sizes), "file"), total))


def mark_progress() -> None:
    """Tell the job script that data was copied which its next attempt need not copy."""
    folder = os.environ.get("STAGE_DIR")
    if folder:
        open(os.path.join(folder, "data_staged"), "a").close()


def exit_code_of(what: str, where: str, work: Callable[[], None]) -> int:
    """0: the work is done. 1: it failed; the log, and the job's folder, have the reason.

    The folder also has whether another attempt would fail, too.
    """
    try:
        work()
        return 0
    except StageError as caught:
        error = caught
    except OSError as caught:
        error = os_failure(str(caught.filename or where), caught)
    report_status("%s failed" % what, str(error))
    folder = os.environ.get("STAGE_DIR")
    if folder and isinstance(error, SourceError):
        open(os.path.join(folder, "source_failed"), "a").close()
    return 1


def format_size(count: float) -> str:
    """Bytes in a readable unit: 3.4 GB."""
    unit = 0
    while count >= 999.5 and unit < len(_UNITS) - 1:
        count, unit = count / 1000, unit + 1
    return "%d B" % count if unit == 0 else "%.3g %s" % (count, _UNITS[unit])


def not_ours(paths: Collection[str], how: str) -> str:
    """Say that files were not staged or exported."""
    verbs = ("exists and was", "exist and were")
    return "%s %s not %s" % (counted(paths), verbs[len(paths) > 1], how)


def counted(paths: Collection[str]) -> str:
    """Name the first of some files, and count the others."""
    first, others = printable(min(paths)), len(paths) - 1
    return "%s and %s" % (first, plural(others, "other file")) if others else first


def plural(number: int, noun: str) -> str:
    return "1 %s" % noun if number == 1 else "%s %ss" % (format(number, ","), noun)


# ------------------------------------------------------------------ progress


class Progress:
    """Reports every few seconds how many bytes are copied, how fast, and the time left.

    `on_tick` is called with every `tick`, about once a second.
    """

    def __init__(self, what: str, total: int, on_tick: Callable[[], None] = lambda: None) -> None:
        self._what, self._total, self._on_tick = what, total, on_tick
        self._started = self._last = time.monotonic()
        self.bytes = 0

    def add(self, count: int) -> None:
        self.bytes += count

    def tick(self) -> None:
        self._on_tick()
        now = time.monotonic()
        if now - self._last >= REPORT_SECONDS:
            self._last = now
            report_status(self._what, self._text(now))

    def _text(self, now: float) -> str:
        rate = self.bytes / (now - self._started)
        percent = 100 * self.bytes // self._total if self._total else 100
        done = "%s of %s" % (format_size(self.bytes), format_size(self._total))
        text = "%s (%d %%), %s/s" % (done, percent, format_size(rate))
        return "%s, %d s left" % (text, (self._total - self.bytes) / rate) if rate else text
