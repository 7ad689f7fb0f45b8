"""List a prefix of a bucket with s5cmd or aws, which handle credentials, region and retries."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from stage_log import SourceError, StageError, kill_tool, log, printable, tool_environment

ROUNDS = 3
# S3's error codes, as s5cmd and aws print them, after which a retry gets the same answer.
_REFUSED = re.compile(
    r"\b(AccessDenied|AllAccessDisabled|Forbidden|InvalidAccessKeyId|NoSuchBucket)\b|\(403\)"
)

_MAX_HEAD_REQUESTS = 10  # for encrypted objects; each starts aws once

Objects = Dict[str, List[Any]]  # name -> [size, ETag]


class Bucket:
    """A prefix, and the tools that can read it."""

    def __init__(self, source: str) -> None:
        self.source = source.rstrip("/")
        self._name, _, self._prefix = self.source[len("s3://") :].partition("/")
        aws = shutil.which("aws")
        self.s5cmd, self.aws = _s5cmd(), [aws] if aws else []
        if not self.s5cmd and not self.aws:
            raise SourceError("%s: neither s5cmd nor aws is installed on this node" % source)
        self.is_single_object = False
        self.count = 0
        self._encrypted = 0
        self._warned = False

    def key_of(self, name: str) -> str:
        return "%s/%s" % (self.source, name) if name else self.source

    def below(self) -> Objects:
        """All objects below the prefix, also if there are none. Raises StageError."""
        prefix = self._prefix + "/" if self._prefix else ""
        return {key[len(prefix) :]: row for key, row in self._rows(prefix) if key != prefix}

    def list(self) -> Objects:
        """All objects below the prefix, or the single object of that name. Raises StageError."""
        found = self.below()
        if not found and self._prefix:
            found.update(("", row) for key, row in self._rows(self._prefix) if key == self._prefix)
            self.is_single_object = True
        if not found:
            raise SourceError("%s: no objects found" % self.source)
        found = {name: row for name, row in found.items() if not name.endswith("/")}
        self.count = len(found)
        return found

    def check(self) -> None:
        """Ask for the first object, which takes no longer for a million. Raises StageError."""
        prefixes = [self._prefix + "/", self._prefix] if self._prefix else [""]
        if not any(self._has_objects(prefix) for prefix in prefixes):
            raise SourceError("%s: no objects found" % self.source)

    def _has_objects(self, prefix: str) -> bool:
        if self.s5cmd:  # it has no limit, so it is killed at its first line
            command = [*self.s5cmd, "--json", "ls", "s3://%s/%s*" % (self._name, prefix)]
            return bool(_first_line(command, self.source, "no object found"))
        command = [*self.aws, "s3api", "list-objects-v2", "--bucket", self._name]
        command += ["--prefix", prefix, "--max-items", "1", "--query", "Contents[].[Key,Size,ETag]"]
        return (json.loads(self._run([*command, "--output", "json"]) or "null") or []) != []

    def _rows(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        rows = self._rows_of_s5cmd(prefix) if self.s5cmd else self._rows_of_aws(prefix)
        return (row for row in rows if row[0].startswith(prefix))

    def _rows_of_aws(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        query = "Contents[].[Key,Size,ETag]"
        command = [*self.aws, "s3api", "list-objects-v2", "--bucket", self._name]
        command += ["--prefix", prefix, "--query", query, "--output", "json"]
        for key, size, etag in json.loads(self._run(command) or "null") or []:
            yield key, [size, etag.strip('"')]

    def _rows_of_s5cmd(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        """May include other keys, because s5cmd treats `*` and `?` in the prefix as wildcards."""
        start = "s3://%s/" % self._name
        command = [*self.s5cmd, "--json", "ls", "%s%s*" % (start, prefix)]
        for line in self._run(command, "no object found").splitlines():
            row = json.loads(line)
            if row.get("type") == "file":  # without a size if it is empty
                yield row["key"][len(start) :], [row.get("size", 0), row.get("etag", "").strip('"')]

    def _run(self, command: List[str], empty: str = "\0") -> str:
        """The output; nothing if the tool fails with the message `empty`."""
        message = ""
        for number in range(ROUNDS):
            time.sleep(number)
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=tool_environment()
            )
            if done.returncode == 0:
                return done.stdout.decode()
            message = done.stderr.decode(errors="replace").strip()
            if empty in message:
                return ""
            if is_refusal(message):
                break
        raise failure(self.source, message)

    def etag_is_checksum(self, name: str) -> bool:
        """Whether the ETag of an object, which did not match, is a checksum.

        Each object may be encrypted or not; after some that are, all others count as encrypted.
        """
        if not self.aws:
            return True
        if self._encrypted >= _MAX_HEAD_REQUESTS:
            return False
        head = self._head(name)
        kind = str(head.get("ServerSideEncryption", ""))
        if not (kind.startswith("aws:") or "SSECustomerAlgorithm" in head):
            return True
        if not self._encrypted:
            log("stage: %s is encrypted: only sizes are compared" % self.source)
        self._encrypted += 1
        return False

    def part_size(self, name: str) -> Optional[int]:
        """The size of the first part of an object uploaded in parts; s5cmd cannot ask for it."""
        return int(self._head(name, "--part-number", "1")["ContentLength"]) if self.aws else None

    def _head(self, name: str, *options: str) -> Dict[str, Any]:
        key = "%s/%s" % (self._prefix, name) if name else self._prefix
        command = [*self.aws, "s3api", "head-object", "--bucket", self._name]
        command += ["--key", key.lstrip("/"), *options, "--output", "json"]
        return dict(json.loads(self._run(command)))

    def warn_unverified(self, name: str) -> None:
        """Warn about the first object whose ETag cannot be checked."""
        if not self._warned:
            self._warned = True
            log(
                "stage: the ETag of %s cannot be checked: only sizes are compared, "
                "of this object and of others like it" % printable(self.key_of(name))
            )


def is_refusal(message: str) -> bool:
    """Whether a tool's message says that S3 would refuse a retry as well."""
    return _REFUSED.search(message) is not None


def failure(source: str, message: str) -> StageError:
    """The error for what a tool has said on stderr."""
    kind = SourceError if is_refusal(message) else StageError
    return kind("%s: %s" % (source, message.splitlines()[-1] if message else "no message"))


def _first_line(command: List[str], source: str, empty: str) -> bytes:
    """The first line of a tool's output, which is killed then; b"" if it fails with `empty`."""
    with tempfile.TemporaryFile() as errors:
        tool = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=errors,
            env=tool_environment(),
            start_new_session=True,
        )
        assert tool.stdout is not None
        line = tool.stdout.readline()
        if not line and tool.wait():
            errors.seek(0)
            message = errors.read().decode(errors="replace").strip()
            if empty not in message:
                raise failure(source, message)
        kill_tool(tool)
        tool.stdout.close()
        return line


def _s5cmd() -> List[str]:
    path, attempts = shutil.which("s5cmd"), tool_environment()["AWS_MAX_ATTEMPTS"]
    retries = int(attempts) - 1 if attempts.isdigit() else 4
    return [path, "--retry-count", str(max(0, retries))] if path else []
