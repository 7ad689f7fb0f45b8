"""Brings a data set to its place once, whole and checked: `stage.py SOURCE TARGET`.

SOURCE is a folder, a file or s3://bucket/prefix. However many jobs start together, one of them
copies and the others wait; a job that finds the record and the files as they were staged goes on
at once. What was copied when a job was ended is not copied again.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import Any, Dict, List, Optional, Tuple

from stage_copy import bring_files, path_of
from stage_files import Entry, scan
from stage_lock import Lock
from stage_log import StageError, counted, failure, say, shown, size, tell
from stage_place import put_in_place
from stage_record import Place, Sums, compare, rows_of

Brought = Tuple[Sums, Dict[str, Entry], Any]


class Stage:
    """One data set on its way."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.source: str = options.source
        self.is_s3 = self.source.startswith("s3://")
        self.place = Place(options.target)
        self.name = "stage %s" % shown(self.place.target)
        if not self.is_s3:
            self.source = os.path.realpath(self.source)
            _check_apart(self.source, self.place.target)

    def run(self) -> None:
        """Raises StageError where the data cannot be had whole."""
        record = self.finished()
        if record is None:
            self._under_lock()
        else:
            self._say_there(record)

    def finished(self) -> Optional[Dict[str, Any]]:
        """The record, if what it says is there and the source is still the same."""
        record = self.place.load_record()
        if record is None or record["source"] != self._identity():
            return None
        if self.options.reread or self.options.refresh:
            return None
        wrong, touched = compare(self.place.target, record)
        if wrong:
            names = ", ".join(shown(path_of(self.place.target, name)) for name in wrong[:3])
            say("%s: not as it was staged: %d, such as %s" % (self.name, len(wrong), names))
        if wrong or touched:
            return None
        if self._has_changed(record["state"]):
            say("%s: %s has changed" % (self.name, shown(self.source)))
            return None
        return dict(record)

    def _has_changed(self, state: Any) -> bool:
        """A source that is gone has not changed. A bucket is asked only where the spec says so."""
        if self.is_s3 or not os.path.lexists(self.source):
            return False
        return bool(rows_of(scan(self.source)) != state)

    def _identity(self) -> List[Any]:
        return [self.source, bool(self.options.unpack)]

    def _say_there(self, record: Dict[str, Any]) -> None:
        total = sum(row[0] for row in record["files"].values())
        files = counted(len(record["files"]), "file")
        tell(self.name, "is there, %s, %s" % (files, size(total)))

    def _under_lock(self) -> None:
        os.makedirs(self.place.folder, exist_ok=True)
        lock = Lock(self.place.lock, self.name)
        lock.acquire()
        try:
            record = self.finished()  # another job may have brought it while this one waited
            if record is not None:
                self._say_there(record)
                return
            sums, listing, state = self._bring(lock)
            put_in_place(self.place, listing, lock)
            self._write_record(sums, listing, state, lock)
            lock.moved()
        except OSError as error:
            raise failure(str(error.filename or self.place.target), error) from None
        finally:
            lock.release()

    def _bring(self, lock: Lock) -> Brought:
        """The copy beside the target: the sums of its files, what it is, what the source was."""
        began = self.place.load_record()
        record = began if began and began["source"] == self._identity() else None
        if self.options.unpack:
            from stage_archive import bring_archive

            unpacked: Brought = bring_archive(self.place, self.source, lock)
            return unpacked
        if self.is_s3:
            from stage_s3 import bring_objects

            objects: Brought = bring_objects(self.place, self.source, record, lock)
            return objects
        listing = scan(self.source)
        sums = bring_files(self.place, listing, record, lock, self.options.reread)
        return sums, listing, rows_of(listing)

    def _write_record(self, sums: Sums, listing: Dict[str, Entry], state: Any, lock: Lock) -> None:
        """Look at what is there now, all of it, and write it down."""
        there = scan(self.place.target, follow=False)
        files = {}
        for name, entry in listing.items():
            one = there.get(name)
            if one is None or one.kind != entry.kind or one.size != entry.size:
                path = shown(path_of(self.place.target, name))
                raise StageError("%s: was copied, and is not there" % path)
            if entry.kind == "file":
                files[name] = [one.size, one.mtime, one.ctime, sums[name]]
        others = {name: one.kind for name, one in listing.items() if one.kind != "file"}
        job = os.environ.get("SLURM_JOB_ID", "")
        record = {"source": self._identity(), "state": state, "files": files, "others": others}
        lock.assert_held()
        self.place.write_record(dict(record, job=job))
        total = sum(row[0] for row in files.values())
        tell(self.name, "complete, %s, %s" % (counted(len(files), "file"), size(total)))


def _check_apart(source: str, target: str) -> None:
    if source == target:
        raise StageError("%s is its own target" % shown(source))
    for inner, outer in ((source, target), (target, source)):
        if inner.startswith(outer.rstrip("/") + "/"):
            raise StageError("%s lies inside %s" % (shown(inner), shown(outer)))


# ------------------------------------------------------------------ the command line


class Ended(BaseException):
    """A signal asked for the end; its number is the first argument."""


def _end(number: int, _frame: Any) -> None:
    signal.signal(number, signal.SIG_IGN)  # once is enough
    raise Ended(number)


def main() -> int:
    """0: the data is there; 1: it is not, and a message says why; 128 + a signal that ended it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("source")
    parser.add_argument("target")
    parser.add_argument("--unpack", action="store_true", help="the source is an archive")
    parser.add_argument("--refresh", action="store_true", help="ask the source again")
    parser.add_argument("--reread", action="store_true", help="read all that is there again")
    options = parser.parse_args()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, _end)
    try:
        Stage(options).run()
    except StageError as error:
        tell("stage failed", str(error))
        return 1
    except OSError as error:
        tell("stage failed", str(failure(str(error.filename or options.target), error)))
        return 1
    except Ended as ended:
        tell("stage %s" % shown(options.target), "told to end; what is copied is kept")
        return 128 + int(ended.args[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
