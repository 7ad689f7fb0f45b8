"""Download objects of a bucket to a folder, by one s5cmd or several aws."""

from __future__ import annotations

import json
import os
import re
import shlex
import stat
import subprocess
import time
from typing import IO, Dict, Iterator, List

from stage_bucket import Bucket, Objects, error_text
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


def download(
    bucket: Bucket, paths: StagePaths, wanted: Objects, to: str, progress: Progress, lock: Lock
) -> str:
    """Fetch objects until the tools have ended. Returns the last line of their errors.

    Under its own name, below `to`, an object is always complete: aws writes to a temporary name.
    s5cmd writes to the final one, so it gets another folder, and what it reports is moved.
    """
    partial, errors = paths.beside("partial"), paths.beside("tool.log")
    remove(partial)
    commands = list(
        _commands_of_s5cmd(bucket, wanted, partial, paths.beside("commands"))
        if bucket.s5cmd
        else _commands_of_aws(bucket, wanted, to)
    )
    with open(errors, "wb") as log, open(paths.beside("tool.out"), "wb") as output:
        tools = [
            subprocess.Popen(
                command,
                stdout=output,
                stderr=log,
                env=tool_environment(),
                start_new_session=True,
                pass_fds=[lock.descriptor()],
            )
            for command in commands
        ]
    try:
        with open(paths.beside("tool.out"), "rb") as output:
            _wait(tools, output, paths, wanted, to, progress, lock)
    finally:
        for tool in tools:
            kill_tool(tool)
        remove(partial)
    with open(errors, encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file if line.strip()]
    return ": " + printable(error_text(lines[-1])) if lines else ""


def _wait(
    tools: List[subprocess.Popen[bytes]],
    output: IO[bytes],
    paths: StagePaths,
    wanted: Objects,
    to: str,
    progress: Progress,
    lock: Lock,
) -> None:
    """Until the tools have ended, or are stuck."""
    start = progress.bytes - allocated(paths.folder)
    last_change, next_look, complete, is_over, rest = time.monotonic(), 0.0, 0, False, b""
    while not is_over:
        is_over = all(tool.poll() is not None for tool in tools)
        *lines, rest = (rest + output.read()).split(b"\n")
        for line in lines:
            _move_reported(line, paths.beside("partial"), to)
        now = time.monotonic()
        if is_over or now >= next_look:
            before = progress.bytes, complete
            progress.bytes = start + allocated(paths.folder)
            complete = sum(size_of(path_of(to, name)) == row[0] for name, row in wanted.items())
            if complete > before[1]:
                lock.report_progress()
            if (progress.bytes, complete) != before:
                last_change = now
            is_over |= now - last_change > STALL_SECONDS
            next_look = now + max(0.2, 20 * (time.monotonic() - now))
        progress.tick()
        time.sleep(0.0 if is_over else 0.05)


def _move_reported(line: bytes, partial: str, to: str) -> None:
    """What s5cmd says of a complete object; aws says nothing."""
    try:
        done = json.loads(line)
    except ValueError:
        return
    if isinstance(done, dict) and done.get("success"):
        path = done["destination"]
        os.replace(path, path_of(to, path[len(partial) + 1 :]))


def _commands_of_s5cmd(
    bucket: Bucket, wanted: Objects, partial: str, path: str
) -> Iterator[List[str]]:
    """One command with a list of exact names, and one for each name with a line break."""
    with open(path, "w", encoding="utf-8", errors="surrogateescape") as file:
        for name in wanted:
            copy = ["cp", "--raw", bucket.key_of(name), path_of(partial, name)]
            if "\n" in name or "\r" in name:
                yield [*bucket.s5cmd, "--json", *copy]
            else:
                file.write(" ".join(map(shlex.quote, copy)) + "\n")
    yield [*bucket.s5cmd, "--json", "run", path]


def _commands_of_aws(bucket: Bucket, wanted: Objects, to: str) -> Iterator[List[str]]:
    """Several commands with a part of the names each, because one aws uses one core."""
    if bucket.is_single_object:
        yield [*bucket.aws, "s3", "cp", "--only-show-errors", bucket.source, to]
        return
    count = max(1, min(worker_count(), _MAX_TOOLS, len(wanted) // _MIN_OBJECTS_PER_TOOL))
    if len(wanted) < bucket.count and len(wanted) <= _MAX_NAMES:
        exact = [_literal(name) for name in sorted(wanted)]
        parts = [exact[number::count] for number in range(count)]
    else:
        costs = {name: row[0] + _REQUEST_COST for name, row in wanted.items()}
        parts = patterns_of(costs, count)
    sync = [*bucket.aws, "s3", "sync", "--only-show-errors", bucket.source, to]
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


def size_of(path: str) -> int:
    """The size of a file; -1 if there is none."""
    try:
        status = os.lstat(path)
    except OSError:
        return -1
    return status.st_size if stat.S_ISREG(status.st_mode) else -1


def allocated(folder: str) -> int:
    """The bytes below a folder on the disk: s5cmd creates a file with its final size."""
    total = 0
    for parent, _, names in os.walk(folder):
        for name in names:
            try:
                total += os.lstat(os.path.join(parent, name)).st_blocks * 512
            except FileNotFoundError:  # the tool has just renamed it
                continue
    return total
