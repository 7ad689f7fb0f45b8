"""Export to a bucket with s5cmd or aws."""

from __future__ import annotations

import fnmatch
import os
import tempfile
from typing import Dict, List

from export_folder import (
    Export,
    Record,
    copy_file,
    files_of,
    parse_record,
    record_text,
    refuse,
    state_of,
)
from stage_bucket import Bucket
from stage_log import EXPORT_RECORD, StageError, printable
from stage_tool import ToolError, output_of

MAX_MARKER_BYTES = 1 << 20

_records: Dict[Export, Record] = {}  # fetched once, since this process alone changes them


def export_to_bucket(one: Export) -> List[str]:
    """Upload with s5cmd or aws, which verify what they send; objects are replaced atomically.

    Returns the markers that changed while they were read.
    """
    source, target = os.path.abspath(one.source), one.target
    bucket = Bucket(target)
    _announce(one, bucket)
    sync, end = _command(bucket, "sync"), "/" if bucket.s5cmd else ""
    to = target.rstrip("/") + end
    options = [
        "--no-follow-symlinks",
        *_excluded("*latest*", source),
        *_excluded(EXPORT_RECORD + "*", source),
    ]
    with tempfile.TemporaryDirectory(prefix="export.") as aside:
        left = _copy_markers(one, aside)
        _run([*sync, *options, source + end, to], target)
        if os.listdir(aside):
            _run([*sync, aside + end, to], target)
    return left


def _announce(one: Export, bucket: Bucket) -> None:
    """Raises StageError if the bucket has an object of a name that was not exported from here."""
    states: Record = {name: [state_of(status)] for name, status in files_of(one.source)}
    if not states:
        return
    record, key = _records.pop(one, None), bucket.key_of(one.record_name)
    with tempfile.TemporaryDirectory(prefix="export.") as aside:
        path = os.path.join(aside, "record")
        if record is None:
            record = {}
            if bucket.has(one.record_name):
                _run([*_command(bucket, "cp"), key, path], one.target)
                with open(path) as file:
                    record = parse_record(one, file.read())
        unknown = states.keys() - record
        if unknown and not one.overwrite:
            refuse(one.source, [bucket.key_of(name) for name in bucket.below() if name in unknown])
        record.update(states)
        if unknown:
            with open(path, "w") as file:
                file.write(record_text(one, record))
            _run([*_command(bucket, "cp"), path, key], one.target)
    _records[one] = record  # only if it was sent, too


def _command(bucket: Bucket, verb: str) -> List[str]:
    if not bucket.s5cmd:
        return [*bucket.aws, "s3", verb, "--only-show-errors"]
    return [*bucket.s5cmd, "--log", "error", verb, *["--raw"] * (verb == "cp")]


def _copy_markers(one: Export, aside: str) -> List[str]:
    """Copy the markers before the upload: everything that they name exists already.

    Large files of such names are checkpoints themselves, and need only links.
    """
    left = []
    for name, status in files_of(one.source):
        origin, path = os.path.join(os.path.abspath(one.source), name), os.path.join(aside, name)
        if "latest" not in name:
            continue
        if status.st_size > MAX_MARKER_BYTES:
            os.makedirs(os.path.dirname(path), exist_ok=True)
            os.symlink(origin, path)
        elif not copy_file(origin, path, status, set()):
            left.append(origin)
    return left


def _excluded(pattern: str, source: str) -> List[str]:
    """aws compares a pattern with names below the source, s5cmd's sync with whole paths.

    s5cmd 2.3.0 leaves out the first slash of a path.
    """
    whole = source.replace("[", "?").lstrip("/")
    short = [] if fnmatch.fnmatchcase(source, pattern) else [pattern]
    patterns = [*short, "%s/%s" % (whole, pattern), "/%s/%s" % (whole, pattern)]
    return [word for one in patterns for word in ("--exclude", one)]


def _run(command: List[str], target: str) -> None:
    try:
        for _ in output_of(command):
            continue
    except ToolError as failed:
        last = (str(failed) or "no message").splitlines()[-1]
        raise StageError("%s: %s" % (target, printable(last))) from None
