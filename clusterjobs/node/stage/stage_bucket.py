"""A prefix of a bucket, and the tool that reads it: s5cmd or aws.

The tools have the credentials, the region, the retries.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from typing import Any, Dict, Iterator, List, Optional, Tuple

from stage_log import StageError, say, shown, tool_environment

ROUNDS = 3

_MOST_ASKED = 10  # of objects that are encrypted, one start of aws each

Objects = Dict[str, List[Any]]  # name -> [size, ETag]


class Bucket:
    """A prefix, and the tool that reads it."""

    def __init__(self, source: str) -> None:
        self.source = source.rstrip("/")
        self._name, _, self._prefix = self.source[len("s3://") :].partition("/")
        aws = shutil.which("aws")
        self.s5cmd, self.aws = _s5cmd(), [aws] if aws else []
        if not self.s5cmd and not self.aws:
            raise StageError("%s: neither s5cmd nor aws is on this node" % source)
        self.is_one = False
        self.count = 0
        self._encrypted = 0
        self._has_said_unknown = False

    def key_of(self, name: str) -> str:
        return "%s/%s" % (self.source, name) if name else self.source

    def list(self) -> Objects:
        """All below the prefix, else the one object of that name. Raises StageError."""
        prefix = self._prefix + "/" if self._prefix else ""
        found = {key[len(prefix) :]: row for key, row in self._rows(prefix) if key != prefix}
        if not found and self._prefix:
            found.update(("", row) for key, row in self._rows(self._prefix) if key == self._prefix)
            self.is_one = True
        if not found:
            raise StageError("%s: there are no objects" % self.source)
        found = {name: row for name, row in found.items() if not name.endswith("/")}
        self.count = len(found)
        return found

    def _rows(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        rows = self._rows_of_s5cmd(prefix) if self.s5cmd else self._rows_of_aws(prefix)
        return (row for row in rows if row[0].startswith(prefix))

    def _rows_of_aws(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        query = "Contents[].[Key,Size,ETag]"
        command = [*self.aws, "s3api", "list-objects-v2", "--bucket", self._name]
        command += ["--prefix", prefix, "--query", query, "--output", "json"]
        for key, size, etag in json.loads(self._answer(command) or "null") or []:
            yield key, [size, etag.strip('"')]

    def _rows_of_s5cmd(self, prefix: str) -> Iterator[Tuple[str, List[Any]]]:
        """Also of keys that match `*` and `?` in the prefix, which s5cmd takes for patterns."""
        start = "s3://%s/" % self._name
        command = [*self.s5cmd, "--json", "ls", "%s%s*" % (start, prefix)]
        for line in self._answer(command, "no object found").splitlines():
            row = json.loads(line)
            if row.get("type") == "file":  # of an empty one it says no size
                yield row["key"][len(start) :], [row.get("size", 0), row.get("etag", "").strip('"')]

    def _answer(self, command: List[str], nothing: str = "\0") -> str:
        said = ""
        for number in range(ROUNDS):
            time.sleep(number)
            done = subprocess.run(
                command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=tool_environment()
            )
            if done.returncode == 0:
                return done.stdout.decode()
            said = done.stderr.decode(errors="replace").strip()
            if nothing in said:
                return ""
        raise StageError("%s: %s" % (self.source, said.splitlines()[-1] if said else "no answer"))

    def is_sum(self, name: str) -> bool:
        """Whether an ETag is a checksum: asked of an object whose ETag did not match.

        Each may be encrypted in its own way; after some that are, the rest is taken to be.
        """
        if not self.aws:
            return True
        if self._encrypted >= _MOST_ASKED:
            return False
        head = self._head(name)
        kind = str(head.get("ServerSideEncryption", ""))
        if not (kind.startswith("aws:") or "SSECustomerAlgorithm" in head):
            return True
        if not self._encrypted:
            say("stage: %s is encrypted, so that sizes alone are compared" % self.source)
        self._encrypted += 1
        return False

    def part_size(self, name: str) -> Optional[int]:
        """Of an object that was sent in parts, the first one's; s5cmd cannot ask for it."""
        return int(self._head(name, "--part-number", "1")["ContentLength"]) if self.aws else None

    def _head(self, name: str, *options: str) -> Dict[str, Any]:
        key = "%s/%s" % (self._prefix, name) if name else self._prefix
        command = [*self.aws, "s3api", "head-object", "--bucket", self._name]
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


def _s5cmd() -> List[str]:
    path, attempts = shutil.which("s5cmd"), tool_environment()["AWS_MAX_ATTEMPTS"]
    retries = int(attempts) - 1 if attempts.isdigit() else 4
    return [path, "--retry-count", str(max(0, retries))] if path else []
