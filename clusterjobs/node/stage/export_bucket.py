"""Export to a bucket with s5cmd or aws."""

from __future__ import annotations

import fnmatch
import os
import shutil
import subprocess
import tempfile
from typing import Dict, List

from export_folder import Export, copy_file, files_of, state_of
from export_record import ExportRecord, refuse
from stage_bucket import Bucket
from stage_log import (
    EXPORT_RECORD,
    SourceError,
    StageError,
    kill_tool,
    printable,
    tool_environment,
)

STALL_SECONDS = 3600
MAX_MARKER_BYTES = 1 << 20

_records: Dict[Export, ExportRecord] = {}  # fetched once, since this process alone changes them


def export_to_bucket(one: Export) -> List[str]:
    """Upload with s5cmd or aws, which verify what they send; objects are replaced atomically.

    Returns the markers that changed while they were read.
    """
    source, target = os.path.abspath(one.source), one.target
    _announce(one)
    s5cmd, aws = shutil.which("s5cmd"), shutil.which("aws")
    if s5cmd:
        sync, end = [s5cmd, "--log", "error", "sync"], "/"
    elif aws:
        sync, end = [aws, "s3", "sync", "--only-show-errors"], ""
    else:
        raise SourceError("%s: neither s5cmd nor aws is installed on this node" % target)
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


def _announce(one: Export) -> None:
    """Raises StageError if the bucket has an object of a name that was not exported from here."""
    states = {name: [state_of(status)] for name, status in files_of(one.source)}
    if not states:
        return
    record = _records.pop(one, None) or _fetch_record(one)  # kept only if it was sent, too
    unknown = {name for name in states if not record.is_known(name)}
    if unknown and not one.overwrite:
        bucket = Bucket(one.target)
        refuse(one.source, [bucket.key_of(name) for name in bucket.below() if name in unknown])
    if unknown:
        _send_record(one, record.name, record.text_with(states))
    _records[one] = record


def _fetch_record(one: Export) -> ExportRecord:
    record, bucket = ExportRecord(one.source), Bucket(one.target)
    if bucket.has(record.name):
        with tempfile.TemporaryDirectory(prefix="export.") as aside:
            path = os.path.join(aside, "record")
            _run([*_copy(), bucket.key_of(record.name), path], one.target)
            with open(path) as file:
                record.load(file.read())
    return record


def _send_record(one: Export, name: str, text: str) -> None:
    with tempfile.TemporaryDirectory(prefix="export.") as aside:
        path = os.path.join(aside, "record")
        with open(path, "w") as file:
            file.write(text)
        _run([*_copy(), path, "%s/%s" % (one.target.rstrip("/"), name)], one.target)


def _copy() -> List[str]:
    s5cmd = shutil.which("s5cmd")
    if s5cmd:
        return [s5cmd, "--log", "error", "cp", "--raw"]
    return [shutil.which("aws") or "aws", "s3", "cp", "--only-show-errors"]


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
    tool = subprocess.Popen(
        command,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        env=tool_environment(),
        start_new_session=True,
    )
    try:
        _, errors = tool.communicate(timeout=STALL_SECONDS)
    except subprocess.TimeoutExpired:
        raise StageError("%s: no progress" % target) from None
    finally:
        kill_tool(tool)
    if tool.returncode:
        lines = os.fsdecode(errors).strip().splitlines() or ["no message"]
        raise StageError("%s: %s" % (target, printable(lines[-1])))
