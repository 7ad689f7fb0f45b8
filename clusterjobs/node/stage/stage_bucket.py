"""List a prefix of a bucket with s5cmd or aws, which handle credentials, region and retries."""

from __future__ import annotations

import contextlib
import functools
import json
import os
import re
import shutil
import time
from typing import Any, Callable, Dict, Iterator, List, Optional, Tuple

from stage_log import (
    EXPORT_RECORD,
    SourceError,
    StageError,
    log,
    plural,
    printable,
)
from stage_tool import ToolError, answer_of, output_of, tool_environment

ROUNDS = 3
# S3's error codes, as s5cmd and aws print them, after which a retry gets the same answer.
_REFUSED = re.compile(
    r"\b(AccessDenied|AllAccessDisabled|Forbidden|InvalidAccessKeyId|NoSuchBucket)\b|\(403\)"
)

MAX_OBJECTS = 3_000_000  # about 1 GB of memory
PAGE = 50_000  # objects that aws lists at a time, in 50 requests: it prints nothing before the last
_REPORT_SECONDS = 30
_MAX_HEAD_REQUESTS = 10  # for encrypted objects; each starts aws once

Objects = Dict[str, List[Any]]  # name -> [size, ETag]


class Bucket:
    """A prefix, and the tools that can read it."""

    def __init__(self, source: str) -> None:
        self.source = source.rstrip("/")
        self._name, _, self._prefix = self.source[len("s3://") :].partition("/")
        s5cmd, aws = shutil.which("s5cmd"), shutil.which("aws")
        attempts = tool_environment()["AWS_MAX_ATTEMPTS"]
        retries = max(0, int(attempts) - 1) if attempts.isdigit() else 4
        self.s5cmd = [s5cmd, "--retry-count", str(retries)] if s5cmd else []
        self.aws = [aws] if aws else []
        if not self.s5cmd and not self.aws:
            raise SourceError("%s: neither s5cmd nor aws is installed on this node" % source)
        self.is_single_object = False
        self.count = self._encrypted = 0
        self._warned = False

    def key_of(self, name: str) -> str:
        return "%s/%s" % (self.source, name) if name else self.source

    def below(self) -> Objects:
        """All objects below the prefix, also if there are none. Raises StageError."""
        prefix = self._prefix + "/" if self._prefix else ""
        rows = self._rows(prefix)
        return {key[len(prefix) :]: row for key, row in rows.items() if key != prefix}

    def has(self, name: str) -> bool:
        """Whether there is an object of this name below the prefix. Raises StageError."""
        key = "%s/%s" % (self._prefix, name) if self._prefix else name
        return key in self._rows(key)

    def list(self) -> Objects:
        """All objects below the prefix, or the single object of that name. Raises StageError."""
        found = self.below()
        if not found and self._prefix:
            row = self._rows(self._prefix).get(self._prefix)
            found = {"": row} if row else {}
            self.is_single_object = True
        if not found:
            raise SourceError("%s: no objects found" % self.source)
        found = {name: row for name, row in found.items() if _is_data(name)}
        self.count = len(found)
        return found

    def check(self) -> None:
        """Ask for the first object, which takes no longer for a million. Raises StageError."""
        for prefix in [self._prefix + "/", self._prefix] if self._prefix else [""]:
            if self._retried(functools.partial(self._first, prefix)):
                return
        raise SourceError("%s: no objects found" % self.source)

    def _first(self, prefix: str) -> Any:
        return next(self._list(prefix, 1), None)

    def _rows(self, prefix: str) -> Objects:
        """A listing without end is an error: a bucket has each key once."""

        def all_rows() -> Objects:
            found: Objects = {}
            reported = time.monotonic()
            for key, row in self._list(prefix, MAX_OBJECTS + 1):
                if key in found:
                    what = "%s: the listing does not end: it repeats %s"
                    raise StageError(what % (self.source, printable(key)))
                if key.startswith(prefix):  # s5cmd treats `*` and `?` in the prefix as wildcards
                    found[key] = row
                if len(found) > MAX_OBJECTS:
                    most = format(MAX_OBJECTS, ",")
                    raise SourceError("%s: more than %s objects" % (self.source, most))
                if time.monotonic() - reported > _REPORT_SECONDS:
                    reported = time.monotonic()
                    log(
                        "stage: listing %s: %s so far" % (self.source, plural(len(found), "object"))
                    )
            return found

        return self._retried(all_rows) or {}

    def _list(self, prefix: str, most: int) -> Iterator[Tuple[str, List[Any]]]:
        if not self.s5cmd:
            command = [*self.aws, "s3api", "list-objects-v2", "--bucket", self._name]
            command += ["--prefix", prefix, "--max-items", str(min(most, PAGE)), "--output", "json"]
            command += ["--query", "{rows: Contents[].[Key,Size,ETag], next: NextToken}"]
            begin: List[str] = []
            while True:
                page = _parsed(answer_of([*command, *begin]))
                for key, size, etag in page["rows"] or []:
                    yield key, [size, etag.strip('"')]
                if not page["next"]:
                    return
                begin = ["--starting-token", page["next"]]
        start = "s3://%s/" % self._name  # it has no limit, and is killed when nobody reads on
        for line in output_of([*self.s5cmd, "--json", "ls", "%s%s*" % (start, prefix)]):
            row = _parsed(line)
            if row.get("type") == "file":  # without a size if it is empty
                yield row["key"][len(start) :], [row.get("size", 0), row.get("etag", "").strip('"')]

    def _retried(self, work: Callable[[], Any]) -> Any:
        """The result of `work`; None if s5cmd found no object. Raises StageError."""
        message = ""
        for number in range(ROUNDS):
            time.sleep(number)
            try:
                return work()
            except ToolError as failed:
                message = str(failed)
            if "no object found" in message:
                return None
            if is_refusal(message):
                break
        kind = SourceError if is_refusal(message) else StageError
        raise kind("%s: %s" % (self.source, (message or "no message").splitlines()[-1]))

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
        return dict(self._retried(lambda: _parsed(answer_of(command))))

    def warn_unverified(self, name: str) -> None:
        """Warn about the first object whose ETag cannot be checked."""
        if not self._warned:
            self._warned = True
            log(
                "stage: the ETag of %s cannot be checked: only sizes are compared, "
                "of this object and of others like it" % printable(self.key_of(name))
            )


def _is_data(name: str) -> bool:
    """Not a folder's object, or the record of an export."""
    return not name.endswith("/") and not os.path.basename(name).startswith(EXPORT_RECORD)


def is_refusal(message: str) -> bool:
    """Whether a tool's message says that S3 would refuse a retry as well."""
    return _REFUSED.search(message) is not None


def error_text(line: str) -> str:
    """The message in a line of s5cmd's JSON."""
    try:
        return str(json.loads(line)["error"])
    except (ValueError, KeyError, TypeError):
        return line


def _parsed(text: bytes) -> Dict[str, Any]:
    """An object of JSON. Raises ToolError: a retry may get one."""
    with contextlib.suppress(ValueError):
        found = json.loads(text)
        if isinstance(found, dict):
            return found
    raise ToolError("no JSON: %s" % printable(text[:100].decode(errors="replace")))
