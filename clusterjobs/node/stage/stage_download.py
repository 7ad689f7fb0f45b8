"""Objects of a bucket on their way to a folder, by s5cmd or by several aws."""

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
from stage_log import Progress, end_tool, shown, tool_environment
from stage_pool import workers
from stage_record import Place, remove

STALL_SECONDS = 600
_MOST_TOOLS = 8
_MOST_NAMES = 1000  # on one command line
_FEW = 32  # objects are not worth a tool of their own
_FILE = 1 << 20  # a request costs about as much as this many bytes


class Download:
    """The tools at work. What has arrived whole is below `to` by its name, and nothing else is.

    aws keeps an object beside its place until it is whole. s5cmd writes to its place, in parts, so
    that it gets another place, and an object is moved when s5cmd says that it is there.
    """

    def __init__(
        self, bucket: Bucket, place: Place, wanted: Objects, to: str, work: Tuple[Progress, Lock]
    ) -> None:
        self._bucket, self._wanted, self._to = bucket, wanted, to
        self._progress, self._lock = work
        self._arriving = os.path.join(place.folder, "arriving")
        self._log = os.path.join(place.folder, "tool.log")
        self._told = os.path.join(place.folder, "tool.out")
        self._seen: Set[str] = set()
        self._before = self._progress.bytes
        self._moved, self._next_look = time.monotonic(), 0.0
        remove(self._arriving)
        commands = list(self._commands_of_s5cmd() if bucket.s5cmd else self._commands_of_aws())
        with open(self._log, "wb") as log, open(self._told, "wb") as told:
            self._tools = [self._start(command, told, log) for command in commands]
        self._answers = os.open(self._told, os.O_RDONLY | os.O_CLOEXEC)
        self._rest = b""

    def arrived(self) -> Optional[List[str]]:
        """The names of the objects that are whole since this was last asked; None: it is over."""
        is_over = all(tool.poll() is not None for tool in self._tools)
        now = time.monotonic()
        names = self._finished_by_s5cmd() if self._bucket.s5cmd else []
        if is_over or now >= self._next_look:
            found = self._look()
            if not self._bucket.s5cmd:
                names = [name for name in found if name not in self._seen]
            self._next_look = now + max(0.2, 20 * (time.monotonic() - now))
            if self._progress.bytes != self._before:
                self._before, self._moved = self._progress.bytes, now
            elif now - self._moved > STALL_SECONDS:
                is_over = True  # tools that move nothing for long are ended by who called
        self._seen.update(names)
        if names:
            self._lock.moved()
        return None if is_over and not names else names

    def end(self) -> str:
        """The end of what the tools said where one failed."""
        for tool in self._tools:
            end_tool(tool)
        os.close(self._answers)
        remove(self._arriving)
        with open(self._log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return ": " + shown(_reason(lines[-1])) if lines else ""

    def _start(self, command: Sequence[str], told: IO[bytes], log: IO[bytes]) -> Any:
        return subprocess.Popen(
            command,
            stdout=told,
            stderr=log,
            env=tool_environment(),
            start_new_session=True,
            pass_fds=[self._lock.descriptor()],
        )

    # -------------------------------------------------------------- s5cmd

    def _commands_of_s5cmd(self) -> Iterator[List[str]]:
        """One for all, with a list of exact names; a line break does not fit the list."""
        words = [*self._bucket.s5cmd, "--json"]
        path = os.path.join(os.path.dirname(self._log), "commands")
        with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
            for name in self._wanted:
                copy = ["cp", "--raw", self._bucket.key_of(name), path_of(self._arriving, name)]
                if "\n" in name or "\r" in name:
                    yield [*words, *copy]
                else:
                    file.write(" ".join(map(shlex.quote, copy)) + "\n")
        yield [*words, "run", path]

    def _finished_by_s5cmd(self) -> List[str]:
        names: List[str] = []
        while True:
            data = os.read(self._answers, 1 << 16)
            *lines, self._rest = (self._rest + data).split(b"\n")
            for line in lines:
                done = _said(line)
                if done.get("success"):
                    name = done["destination"][len(self._arriving) + 1 :]
                    os.replace(done["destination"], path_of(self._to, name))
                    names.append(name)
            if not data:
                return names

    # -------------------------------------------------------------- aws

    def _commands_of_aws(self) -> Iterator[List[str]]:
        """Several with a part of the names each, for one is bound to one core."""
        bucket, wanted = self._bucket, self._wanted
        if bucket.is_one:
            yield [*bucket.aws, "s3", "cp", "--only-show-errors", bucket.source, self._to]
            return
        count = max(1, min(workers(), _MOST_TOOLS, len(wanted) // _FEW))
        if len(wanted) < bucket.count and len(wanted) <= _MOST_NAMES:
            exact = [literal(name) for name in sorted(wanted)]
            parts = [exact[number::count] for number in range(count)]
        else:
            parts = patterns_of({name: row[0] + _FILE for name, row in wanted.items()}, count)
        sync = [*bucket.aws, "s3", "sync", "--only-show-errors", bucket.source, self._to]
        for part in parts:
            yield [*sync, "--exclude", "*", *_included(part)]

    def _look(self) -> List[str]:
        """Objects that are whole, and the bytes of all, with those of objects on their way."""
        self._progress.bytes, names = _arrived(self._wanted, self._to)
        for folder, _, files in os.walk(self._arriving):
            for file in files:
                try:  # s5cmd makes a file as long as it will be at once
                    self._progress.bytes += os.lstat(os.path.join(folder, file)).st_blocks * 512
                except FileNotFoundError:
                    continue
        return names


def _reason(line: str) -> str:
    """What s5cmd says in JSON, shortly."""
    try:
        return str(json.loads(line)["error"])
    except (ValueError, KeyError, TypeError):
        return line


def _included(patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from ("--include", pattern)


def _arrived(wanted: Objects, to: str) -> Tuple[int, List[str]]:
    """The bytes that are there, with those of unfinished objects; which objects are whole.

    While an object comes, aws keeps it beside its place, as NAME.1a2B3c4D.
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


def _said(line: bytes) -> Dict[str, Any]:
    """A line of s5cmd's; what else is printed there is passed over."""
    try:
        done = json.loads(line)
    except ValueError:
        return {}
    return done if isinstance(done, dict) else {}
