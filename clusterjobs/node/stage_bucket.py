"""A prefix of a bucket, and the tool that lists it and copies from it: s5cmd or aws.

The tools have the credentials, the region, the retries. Several aws run at once, each with a part
of the names, for one alone is bound to one core.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from typing import Any, Dict, Iterator, List, Optional, Sequence, Tuple

from stage_lock import Lock
from stage_log import Progress, StageError, say, shown
from stage_names import literal, patterns_of
from stage_pool import workers

ROUNDS = 3
STALL_SECONDS = 600
_MOST_TOOLS = 8
_MOST_NAMES = 1000  # on one command line
_FILE = 1 << 20  # a request costs about as much as this many bytes

Objects = Dict[str, List[Any]]  # name -> [size, ETag]


class Bucket:
    """A prefix, and the tool that reads it."""

    def __init__(self, source: str) -> None:
        self._source = source.rstrip("/")
        self._name, _, self._prefix = self._source[len("s3://") :].partition("/")
        self._s5cmd, self._aws = shutil.which("s5cmd"), shutil.which("aws")
        if not self._s5cmd and not self._aws:
            raise StageError("%s: neither s5cmd nor aws is on this node" % source)
        self._is_one = False
        self._count = 0
        self._etags_are_sums = True
        self._has_said_unknown = False

    def key_of(self, name: str) -> str:
        return "%s/%s" % (self._source, name) if name else self._source

    def list(self) -> Objects:
        """All below the prefix, else the one object of that name. Raises StageError."""
        prefix = self._prefix + "/" if self._prefix else ""
        found = {key[len(prefix) :]: row for key, row in self._rows(prefix) if key != prefix}
        if not found and self._prefix:
            found.update(("", row) for key, row in self._rows(self._prefix) if key == self._prefix)
            self._is_one = True
        if not found:
            raise StageError("%s: there are no objects" % self._source)
        found = {name: row for name, row in found.items() if not name.endswith("/")}
        self._count = len(found)
        return found

    def _rows(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        if not self._aws:
            yield from self._rows_of_s5cmd(prefix)
            return
        query = "Contents[].[Key,Size,ETag]"
        command = [self._aws, "s3api", "list-objects-v2", "--bucket", self._name]
        command += ["--prefix", prefix, "--query", query, "--output", "json"]
        for key, size, etag in json.loads(self._answer(command) or "null") or []:
            yield key, [size, etag.strip('"')]

    def _rows_of_s5cmd(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        start = "s3://%s/" % self._name
        command = [str(self._s5cmd), "--json", "ls", "%s%s*" % (start, prefix)]
        for line in self._answer(command, "no object found").splitlines():
            row = json.loads(line)
            if row.get("type") == "file":
                yield row["key"][len(start) :], [row["size"], row.get("etag", "").strip('"')]

    def _answer(self, command: List[str], nothing: str = "\0") -> str:
        said = ""
        for number in range(ROUNDS):
            time.sleep(number)
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=_environment()
            )
            if done.returncode == 0:
                return done.stdout.decode()
            said = done.stderr.decode(errors="replace").strip()
            if nothing in said:
                return ""
        raise StageError("%s: %s" % (self._source, said.splitlines()[-1] if said else "no answer"))

    def copy(self, wanted: Objects, to: str, progress: Progress, lock: Lock) -> str:
        """Run the tools; gives the end of what they said where one failed."""
        log = os.path.join(os.path.dirname(to), "tool.log")
        with open(log, "wb") as output:
            running = [
                subprocess.Popen(
                    command,
                    stdout=subprocess.DEVNULL,
                    stderr=output,
                    env=_environment(),
                    pass_fds=[lock.descriptor()],
                )
                for command in self._commands(wanted, to)
            ]
            try:
                _wait(running, wanted, to, progress, lock)
            finally:
                for tool in running:
                    tool.kill()
                    tool.wait()
        with open(log, encoding="utf-8", errors="replace") as file:
            lines = [line.strip() for line in file if line.strip()]
        return ": " + shown(lines[-1]) if lines else ""

    def _commands(self, wanted: Objects, to: str) -> List[List[str]]:
        if self._is_one:
            if self._s5cmd:
                return [[self._s5cmd, "cp", self._source, to]]
            return [[str(self._aws), "s3", "cp", "--only-show-errors", self._source, to]]
        if self._s5cmd:
            return [[self._s5cmd, "--log", "error", "sync", self._source + "/*", to + "/"]]
        sync = [str(self._aws), "s3", "sync", "--only-show-errors", self._source, to]
        if len(wanted) < self._count and len(wanted) <= _MOST_NAMES:
            exact = [literal(name) for name in sorted(wanted)]
            parts = [exact[number :: _tools()] for number in range(min(_tools(), len(exact)))]
        else:
            parts = patterns_of({name: row[0] + _FILE for name, row in wanted.items()}, _tools())
        return [[*sync, "--exclude", "*", *_included(part)] for part in parts]

    def is_sum(self, name: str) -> bool:
        """Whether ETags are checksums here: asked of an object whose ETag did not match."""
        if self._etags_are_sums and self._aws:
            head = self._head(name)
            kind = str(head.get("ServerSideEncryption", ""))
            self._etags_are_sums = not (kind.startswith("aws:") or "SSECustomerAlgorithm" in head)
            if not self._etags_are_sums:
                say("stage: %s is encrypted, so that sizes alone are compared" % self._source)
        return self._etags_are_sums

    def part_size(self, name: str) -> Optional[int]:
        """Of an object that was sent in parts, the first one's; s5cmd cannot ask for it."""
        return int(self._head(name, "--part-number", "1")["ContentLength"]) if self._aws else None

    def _head(self, name: str, *options: str) -> Dict[str, Any]:
        key = "%s/%s" % (self._prefix, name) if name else self._prefix
        command = [str(self._aws), "s3api", "head-object", "--bucket", self._name]
        command += ["--key", key.lstrip("/"), *options, "--output", "json"]
        return dict(json.loads(self._answer(command)))

    def say_unknown(self, name: str) -> None:
        """Once, of the first whose ETag says nothing."""
        if not self._has_said_unknown:
            self._has_said_unknown = True
            say(
                "stage: the ETag of %s says nothing, or nothing that can be told here; "
                "of it, and of others like it, sizes alone are compared" % shown(self.key_of(name))
            )


def _tools() -> int:
    return int(max(1, min(workers(), _MOST_TOOLS)))


def _included(patterns: Sequence[str]) -> Iterator[str]:
    for pattern in patterns:
        yield from ("--include", pattern)


def _environment() -> Dict[str, str]:
    """The tool's own retries, unless somebody has chosen others."""
    ours = {"AWS_RETRY_MODE": "standard", "AWS_MAX_ATTEMPTS": "5", "AWS_PAGER": ""}
    return {**ours, **os.environ}


def _wait(running: Sequence[Any], wanted: Objects, to: str, progress: Progress, lock: Lock) -> None:
    """Until all have ended; tools that move nothing for long are ended by who called."""
    began = moved = time.monotonic()
    before, next_look = progress.bytes, began
    whole = _arrived(wanted, to)[1]
    while any(tool.poll() is None for tool in running):
        time.sleep(0.1)
        now = time.monotonic()
        if now >= next_look:
            progress.bytes, now_whole = _arrived(wanted, to)
            if now_whole > whole:
                whole = now_whole
                lock.moved()
            took = time.monotonic() - now
            next_look = now + max(1.0, 20 * took)
            if progress.bytes != before:
                before, moved = progress.bytes, now
            elif now - moved > STALL_SECONDS:
                return
        progress.tick()


def _arrived(wanted: Objects, to: str) -> Tuple[int, int]:
    """The bytes that are there, with those of unfinished objects; how many objects are whole.

    While an object comes, aws keeps it beside its place, as NAME.1a2B3c4D.
    """
    total = whole = 0
    for folder, _, names in os.walk(os.path.dirname(to)):
        for name in names:
            path = os.path.join(folder, name)
            if not path.startswith(to):
                continue
            try:
                size = os.lstat(path).st_size
            except FileNotFoundError:  # the tool has just renamed it
                continue
            total += size
            row = wanted.get(path[len(to) + 1 :])
            whole += row is not None and row[0] == size
    return total, whole
