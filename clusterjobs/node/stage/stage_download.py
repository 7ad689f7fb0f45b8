"""Download objects of a bucket to a folder, by one s5cmd or several aws."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import time
from typing import IO, Any, Dict, Iterator, List, Optional, Sequence, Set, Tuple

from stage_bucket import Bucket, Objects
from stage_glob_groups import literal, patterns_of
from stage_list import path_of
from stage_lock import Lock
from stage_log import Progress, kill_tool, printable, tool_environment
from stage_pool import worker_count
from stage_record import StagePaths, remove

STALL_SECONDS = 600
_MAX_TOOLS = 8
_MAX_NAMES = 1000  # on one command line
_MIN_OBJECTS_PER_TOOL = 32  # fewer are not worth another process
_REQUEST_COST = 1 << 20  # of one object, in bytes that take about as long


class Download:
    """The running tools. Under its own name, below `to`, an object is always complete.

    aws writes to a temporary name until an object is complete. s5cmd writes to the final name, so
    it gets another folder, and an object is moved when s5cmd reports it as complete.
    """

    def __init__(
        self,
        bucket: Bucket,
        paths: StagePaths,
        wanted: Objects,
        to: str,
        progress: Progress,
        lock: Lock,
    ) -> None:
        self._bucket, self._wanted, self._to = bucket, wanted, to
        self._progress, self._lock = progress, lock
        self._partial = os.path.join(paths.folder, "partial")
        self._log = os.path.join(paths.folder, "tool.log")
        output_path = os.path.join(paths.folder, "tool.out")
        self._finished: Set[str] = set()
        self._last_bytes = self._progress.bytes
        self._last_change, self._next_scan = time.monotonic(), 0.0
        remove(self._partial)
        commands = list(self._commands_of_s5cmd() if bucket.s5cmd else self._commands_of_aws())
        with open(self._log, "wb") as log, open(output_path, "wb") as output:
            self._tools = [self._start(command, output, log) for command in commands]
        self._output = os.open(output_path, os.O_RDONLY | os.O_CLOEXEC)
        self._rest = b""

    def finished(self) -> Optional[List[str]]:
        """The objects completed since the last call; None if all tools have ended."""
        is_over = all(tool.poll() is not None for tool in self._tools)
        now = time.monotonic()
        names = self._finished_by_s5cmd() if self._bucket.s5cmd else []
        if is_over or now >= self._next_scan:
            found = self._scan()
            if not self._bucket.s5cmd:
                names = [name for name in found if name not in self._finished]
            self._next_scan = now + max(0.2, 20 * (time.monotonic() - now))
            if self._progress.bytes != self._last_bytes:
                self._last_bytes, self._last_change = self._progress.bytes, now
            elif now - self._last_change > STALL_SECONDS:
                is_over = True  # the tools are stuck: the caller stops them
        self._finished.update(names)
        if names:
            self._lock.report_progress()
        return None if is_over and not names else names

    def stop(self) -> str:
        """Kill the tools, and return the last line of their errors."""
        for tool in self._tools:
            kill_tool(tool)
        os.close(self._output)
        remove(self._partial)
        with open(self._log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return ": " + printable(_error_text(lines[-1])) if lines else ""

    def _start(self, command: Sequence[str], output: IO[bytes], log: IO[bytes]) -> Any:
        return subprocess.Popen(
            command,
            stdout=output,
            stderr=log,
            env=tool_environment(),
            start_new_session=True,
            pass_fds=[self._lock.descriptor()],
        )

    # -------------------------------------------------------------- s5cmd

    def _commands_of_s5cmd(self) -> Iterator[List[str]]:
        """One command with a list of exact names, and one for each name with a line break."""
        words = [*self._bucket.s5cmd, "--json"]
        path = os.path.join(os.path.dirname(self._log), "commands")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            for name in self._wanted:
                copy = ["cp", "--raw", self._bucket.key_of(name), path_of(self._partial, name)]
                if "\n" in name or "\r" in name:
                    yield [*words, *copy]
                else:
                    file.write(" ".join(map(shlex.quote, copy)) + "\n")
        yield [*words, "run", path]

    def _finished_by_s5cmd(self) -> List[str]:
        names: List[str] = []
        while True:
            data = os.read(self._output, 1 << 16)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                done = _parse_line(line)
                if done.get("success"):
                    name = done["destination"][len(self._partial) + 1 :]
                    os.replace(done["destination"], path_of(self._to, name))
                    names.append(name)
            if not data:
                return names

    # -------------------------------------------------------------- aws

    def _commands_of_aws(self) -> Iterator[List[str]]:
        """Several commands with a part of the names each, because one aws uses one core."""
        bucket, wanted = self._bucket, self._wanted
        if bucket.is_single_object:
            yield [*bucket.aws, "s3", "cp", "--only-show-errors", bucket.source, self._to]
            return
        count = max(1, min(worker_count(), _MAX_TOOLS, len(wanted) // _MIN_OBJECTS_PER_TOOL))
        if len(wanted) < bucket.count and len(wanted) <= _MAX_NAMES:
            exact = [literal(name) for name in sorted(wanted)]
            parts = [exact[number::count] for number in range(count)]
        else:
            costs = {name: row[0] + _REQUEST_COST for name, row in wanted.items()}
            parts = patterns_of(costs, count)
        sync = [*bucket.aws, "s3", "sync", "--only-show-errors", bucket.source, self._to]
        for part in parts:
            yield [*sync, "--exclude", "*", *_included(part)]

    def _scan(self) -> List[str]:
        """Update the bytes, partial objects included, and return the complete objects."""
        self._progress.bytes, names = _scan_target(self._wanted, self._to)
        for folder, _, files in os.walk(self._partial):
            for file in files:
                try:  # s5cmd creates a file with its final size
                    self._progress.bytes += os.lstat(os.path.join(folder, file)).st_blocks * 512
                except FileNotFoundError:
                    continue
        return names


def _error_text(line: str) -> str:
    """The message in a line of s5cmd's JSON."""
    try:
        return str(json.loads(line)["error"])
    except (ValueError, KeyError, TypeError):
        return line


def _included(patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from ("--include", pattern)


def _scan_target(wanted: Objects, to: str) -> Tuple[int, List[str]]:
    """The bytes of all objects, partial ones included, and the names of the complete ones.

    aws writes a partial object to a name such as NAME.1a2B3c4D.
    """
    total = 0
    whole: List[str] = []
    for folder, _, names in os.walk(os.path.dirname(to)):
        for name in names:
            path = os.path.join(folder, name)
            if not path.startswith(to):
                continue
            try:
                status = os.lstat(path)
            except FileNotFoundError:  # the tool has just renamed it
                continue
            total += status.st_size
            row = wanted.get(path[len(to) + 1 :])
            if row is not None and row[0] == status.st_size and stat.S_ISREG(status.st_mode):
                whole.append(path[len(to) + 1 :])
    return total, whole


def _parse_line(line: bytes) -> Dict[str, Any]:
    """A line of s5cmd's JSON; empty for any other line."""
    try:
        done = json.loads(line)
    except ValueError:
        return {}
    return done if isinstance(done, dict) else {}
