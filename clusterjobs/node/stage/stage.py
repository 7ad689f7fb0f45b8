"""Copy a data set to its target once, complete and verified: `stage.py SOURCE TARGET`.

With --check it only asks whether a bucket can be read, so that a job fails before other data comes.
SOURCE is a folder, a file or s3://bucket/prefix. Of all jobs that start together one copies and the
others wait. A job that finds the record of an earlier copy, and the files unchanged, continues at
once. A job that is stopped while it copies keeps what it has copied for the next one.
"""

from __future__ import annotations

import gc
import importlib
import os
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from stage_commit import TargetFiles, find_changes, record_rows, report_unstaged
from stage_copy import copy_files
from stage_lab import source_for
from stage_list import EMPTY, path_of, scan
from stage_lock import Lock
from stage_log import (
    LeaseLostError,
    StageError,
    Stopped,
    exit_code_of,
    log,
    os_failure,
    printable,
    raise_on_signals,
    report_files,
    report_status,
)
from stage_record import StagedCopy, StagePaths
from stage_space import remove_if_full

_FLAGS = ("--unpack", "--refresh", "--reread", "--overwrite", "--check")


class Options(NamedTuple):
    """The command line."""

    source: str
    target: str
    unpack: bool = False  # the source is an archive
    refresh: bool = False  # list the source again
    reread: bool = False  # read the contents of all files again
    overwrite: bool = False  # also files in the target that were not staged
    check: bool = False  # only whether the bucket can be read, unless the data is there already


class Stage:
    """The staging of one data set."""

    def __init__(self, options: Options) -> None:
        self.options = options
        self.source: str = source_for(options.source)
        self.is_s3 = self.source.startswith("s3://")
        self.paths = StagePaths(options.target)
        self.name = "stage %s" % printable(self.paths.target)
        self._written = self.source.rstrip("/")
        if not self.is_s3:
            self._written = os.path.abspath(self.source)
            self.source = os.path.realpath(self.source)
            self.paths.check_apart(self.source)
        else:
            self.source = self._written

    def run(self) -> None:
        """Raises StageError if the data cannot be made complete."""
        self.paths.check()
        if self.options.check:
            self._check_source()
            return
        if self.source != self.options.source and self.options.source.startswith("s3://"):
            log("%s: in the lab, %s stands for the bucket" % (self.name, printable(self.source)))
        record = self._valid_record()
        if record is None:
            self._run_locked()
        else:
            self._report_up_to_date(record)

    def _check_source(self) -> None:
        TargetFiles(self.paths, self._identity(), self.options.overwrite)  # of the same source?
        record = self.paths.load_record()
        if self.is_s3 and (record is None or record["source"] != self._identity()):
            importlib.import_module("stage_s3").check_source(self.source)

    def _valid_record(self) -> Optional[Dict[str, Any]]:
        """The record, if the target is as recorded and the source has not changed."""
        record = self.paths.load_record()
        if record is None or record["source"] != self._identity():
            return None
        if self.options.reread or self.options.refresh:
            return None
        try:
            now = scan(self.paths.target, follow=False)
        except StageError:
            now = EMPTY
        wrong, touched = find_changes(now, record)
        if wrong:
            names = ", ".join(printable(path_of(self.paths.target, name)) for name in wrong[:3])
            what = "changed since it was staged: %s (%d in all)" % (names, len(wrong))
            log("%s: %s" % (self.name, what))
        if wrong or touched:
            return None
        if self._source_changed(record):
            log("%s: %s has changed" % (self.name, printable(self._written)))
            return None
        report_unstaged(self.paths.target, now, record["files"], record["links"])
        return dict(record)

    def _source_changed(self, record: Dict[str, Any]) -> bool:
        """A missing source counts as unchanged. A bucket is listed only with --refresh.

        The time of change (ctime) is compared as well: it moves with every write, even if size and
        time of content are put back. The inode is not, since some network file systems number
        files anew.
        """
        if self.is_s3 or not os.path.lexists(self.source):
            return False
        now = scan(self.source)
        if self.options.unpack:
            return bool(list(now.files.get("", ())) != record["state"])
        files = {name: tuple(row[:4]) for name, row in record["files"].items()}
        return bool(now != (files, record["folders"], record["links"]))

    def _identity(self) -> List[Any]:
        """A source is known by its path as written: it may be a link to the newest version."""
        return [self._written, bool(self.options.unpack)]

    def _report_up_to_date(self, record: Dict[str, Any]) -> None:
        report_files(self.name, "up to date", [row[0] for row in record["files"].values()])

    def _run_locked(self) -> None:
        lock = self._acquire_lock()
        try:
            record = self._valid_record()  # another job may have staged it in the meantime
            if record is not None:
                self._report_up_to_date(record)
                return
            target = TargetFiles(self.paths, self._identity(), self.options.overwrite)
            copy = self._make_copy(target, lock)
            target.commit(copy.listing, lock)
            self._write_record(copy, lock)
            lock.report_progress()
        except LeaseLostError:
            raise
        except (StageError, OSError) as error:
            lock.assert_held()
            remove_if_full(self.paths)
            if isinstance(error, OSError):
                raise os_failure(str(error.filename or self.paths.target), error) from None
            raise
        finally:
            if lock.is_flock:
                self.paths.remove_unused()
            lock.release()
            self.paths.remove_empty_folder()

    def _acquire_lock(self) -> Lock:
        while True:
            self.paths.make_folder()
            lock = Lock(self.paths.lock, self.name)
            try:
                lock.acquire()
                return lock
            except FileNotFoundError:  # the job before has left nothing, and removed its folder
                continue

    def _make_copy(self, target: TargetFiles, lock: Lock) -> StagedCopy:
        """Copy to the folder beside the target whatever the target lacks.

        A job carries the modules for archives and buckets only if its sources need them.
        """
        self.paths.start_copy(self._identity())
        record = self.paths.load_record()
        if record and record["source"] != self._identity():
            record = None
        if self.options.unpack:
            archive = importlib.import_module("stage_archive")
            copy: StagedCopy = archive.unpack_archive(self.paths, self.source, lock)
        elif self.is_s3:
            s3 = importlib.import_module("stage_s3")
            copy = s3.copy_objects(
                self.paths, self.source, record, target, lock, self.options.reread
            )
        else:
            known = None if self.options.reread else record
            copy = copy_files(self.paths, self.source, known, target, lock)
        return copy

    def _write_record(self, copy: StagedCopy, lock: Lock) -> None:
        """Verify the whole target, and write down what it contains."""
        listing = copy.listing
        record = {
            "source": self._identity(),
            "state": copy.state,
            "job": os.environ.get("SLURM_JOB_ID", ""),
            "folders": listing.folders,
            "links": listing.links,
            "files": record_rows(self.paths.target, copy),
        }
        lock.assert_held()
        self.paths.write_record(record)
        report_files(self.name, "complete", [row[0] for row in listing.files.values()])


# ------------------------------------------------------------------ the command line


def _parse_arguments(words: Sequence[str]) -> Options:
    """Without argparse, which takes longer to import than a thousand files to copy."""
    paths = [word for word in words if word not in _FLAGS]
    if len(paths) != 2 or any(path.startswith("-") for path in paths):
        sys.exit("usage: stage.py [%s] SOURCE TARGET\n\n%s" % ("] [".join(_FLAGS), __doc__))
    return Options(paths[0], paths[1], *(flag in words for flag in _FLAGS))


def main() -> int:
    """0: the data is complete; 1: it is not, and a message says why; 128 + the signal: stopped."""
    gc.disable()  # the rows of a million files contain no cycles
    os.umask(os.umask(0) | 0o002)  # no other user may write to what is made here
    options = _parse_arguments(sys.argv[1:])
    raise_on_signals()
    try:
        return int(exit_code_of("stage", options.target, lambda: Stage(options).run()))
    except Stopped as stopped:
        report_status("stage %s" % printable(options.target), "stopped; copied files are kept")
        return int(stopped.exit_code)


if __name__ == "__main__":
    sys.exit(main())
