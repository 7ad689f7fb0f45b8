"""Download objects of a bucket to a folder, by one s5cmd or several aws."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from typing import Dict, Iterator, List, Optional, Set, Tuple

from stage_bucket import Bucket, Objects, error_text
from stage_list import path_of
from stage_lock import Lock
from stage_log import Progress, printable
from stage_pool import worker_count
from stage_record import StagePaths, remove
from stage_tool import MAX_ERRORS, kill_tool, last_lines, start_tool

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
        self._partial, self._log = paths.beside("partial"), paths.beside("tool.log")
        self._finished: Set[str] = set()
        self._last_bytes = progress.bytes
        self._last_change, self._next_scan = time.monotonic(), 0.0
        remove(self._partial)
        by_s5cmd = self._commands_of_s5cmd(paths.beside("commands"))
        commands = list(by_s5cmd if bucket.s5cmd else self._commands_of_aws())
        with open(self._log, "wb") as log, open(paths.beside("tool.out"), "wb") as output:
            self._tools = [start_tool(one, output, log, [lock.descriptor()]) for one in commands]
        self._output = open(paths.beside("tool.out"), "rb")  # noqa: SIM115 - closed by `stop`
        self._rest = b""

    def finished(self) -> Optional[List[str]]:
        """The objects completed since the last call; None if all tools have ended."""
        is_over = all(tool.poll() is not None for tool in self._tools)
        is_over = is_over or os.path.getsize(self._log) > MAX_ERRORS
        now = time.monotonic()
        names = self._moved_from_s5cmd() if self._bucket.s5cmd else []
        if is_over or now >= self._next_scan:
            self._progress.bytes, found = self._scan()
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

    def _scan(self) -> Tuple[int, List[str]]:
        """The bytes that have arrived, and the names of the objects that are complete.

        aws writes a partial object to a name such as NAME.1a2B3c4D; s5cmd creates it with its final
        size, so that the blocks that it has count.
        """
        total = 0
        whole: List[str] = []
        for folder, _, names in os.walk(os.path.dirname(self._to)):
            for path in (os.path.join(folder, name) for name in names):
                try:
                    status = os.lstat(path)
                except FileNotFoundError:  # the tool has just renamed it
                    continue
                if path.startswith(self._partial):
                    total += status.st_blocks * 512
                elif path.startswith(self._to):
                    total += status.st_size
                    if self._wanted.get(path[len(self._to) + 1 :], [-1])[0] == status.st_size:
                        whole.append(path[len(self._to) + 1 :])
        return total, whole

    def stop(self) -> str:
        """Kill the tools, and return the last line of their errors."""
        for tool in self._tools:
            kill_tool(tool)
        self._output.close()
        remove(self._partial)
        with open(self._log, "rb") as file:
            lines = last_lines(file).splitlines()
        return ": " + printable(error_text(lines[-1])) if lines else ""

    # -------------------------------------------------------------- s5cmd

    def _commands_of_s5cmd(self, path: str) -> Iterator[List[str]]:
        """One command with a list of exact names, and one for each name with a line break."""
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            for name in self._wanted:
                copy = ["cp", "--raw", self._bucket.key_of(name), path_of(self._partial, name)]
                if "\n" in name or "\r" in name:
                    yield [*self._bucket.s5cmd, "--json", *copy]
                else:
                    file.write(" ".join(map(shlex.quote, copy)) + "\n")
        yield [*self._bucket.s5cmd, "--json", "run", path]

    def _moved_from_s5cmd(self) -> List[str]:
        names: List[str] = []
        *lines, self._rest = (self._rest + self._output.read()).split(b"\n")
        for line in lines:
            try:
                done = json.loads(line)
            except ValueError:
                continue
            if isinstance(done, dict) and done.get("success"):
                names.append(done["destination"][len(self._partial) + 1 :])
                os.replace(done["destination"], path_of(self._to, names[-1]))
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
            exact = [_literal(name) for name in sorted(wanted)]
            parts = [exact[number::count] for number in range(count)]
        else:
            costs = {name: row[0] + _REQUEST_COST for name, row in wanted.items()}
            parts = patterns_of(costs, count)
        sync = [*bucket.aws, "s3", "sync", "--only-show-errors", bucket.source, self._to]
        for part in parts:
            yield [*sync, "--exclude", "*", *(w for one in part for w in ("--include", one))]


def patterns_of(weights: Dict[str, int], parts: int) -> List[List[str]]:
    """At most `parts` lists of glob patterns; each name matches the patterns of one list only.

    The names are grouped by their first characters, as many as make a few groups per part.
    """
    length = len(os.path.commonprefix(list(weights)))  # noqa: RUF071 - by characters
    groups: Dict[str, int] = {}
    while True:
        groups.clear()
        for name, weight in weights.items():
            pattern = _literal(name[:length]) + ("*" if len(name) >= length else "")
            groups[pattern] = groups.get(pattern, 0) + weight
        if len(groups) >= 4 * parts or length >= max(map(len, weights)):
            break
        length += 1
    found: List[List[str]] = [[] for _ in range(parts)]
    loads = [0] * parts
    for pattern in sorted(groups, key=lambda one: groups[one], reverse=True):
        lightest = loads.index(min(loads))
        found[lightest].append(pattern)
        loads[lightest] += groups[pattern]
    return [part for part in found if part]


def _literal(text: str) -> str:
    """A pattern that matches only this text."""
    return re.sub(r"([*?[])", r"[\1]", text)
