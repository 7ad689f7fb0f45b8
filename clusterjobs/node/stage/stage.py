"""Brings a data set to its place once, whole and checked: `stage.py SOURCE TARGET`.

SOURCE is a folder, a file or s3://bucket/prefix. However many jobs start together, one of them
copies and the others wait; a job that finds the record and the files as they were staged goes on
at once. What was copied when a job was ended is not copied again.
"""

from __future__ import annotations

import gc
import os
import signal
import sys
from typing import Any, Dict, List, NamedTuple, Optional, Sequence

from stage_commit import put_in_place
from stage_copy import bring_files
from stage_list import Listing, path_of, scan
from stage_lock import Lock
from stage_log import StageError, counted, failure, say, shown, size, tell
from stage_record import Place, Seen, Sums, compare, is_as_recorded, state_of
from stage_verify import look


class Brought(NamedTuple):
    """What lies beside the target now."""

    listing: Listing  # what the target must be
    sums: Sums
    seen: Seen
    state: Any  # what the source was, where the files' rows do not say it


_FLAGS = ("--unpack", "--refresh", "--reread")


class Options(NamedTuple):
    """What the command line says."""

    source: str
    target: str
    unpack: bool = False  # the source is an archive
    refresh: bool = False  # ask the source again
    reread: bool = False  # read all that is there again


class Stage:
    """One data set on its way."""

    def __init__(self, options: Options) -> None:
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
        if self._has_changed(record):
            say("%s: %s has changed" % (self.name, shown(self.source)))
            return None
        return dict(record)

    def _has_changed(self, record: Dict[str, Any]) -> bool:
        """A source that is gone has not changed. A bucket is asked only where the spec says so."""
        if self.is_s3 or not os.path.lexists(self.source):
            return False
        now = scan(self.source)
        if self.options.unpack:
            return bool(state_of(now) != record["state"])
        return not is_as_recorded(now, record)

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
            brought = self._bring(lock)
            is_new = put_in_place(self.place, brought.listing, lock)
            self._write_record(brought, is_new, lock)
            lock.moved()
        except OSError as error:
            raise failure(str(error.filename or self.place.target), error) from None
        finally:
            lock.release()

    def _bring(self, lock: Lock) -> Brought:
        """The copy beside the target, as far as files of it were not there."""
        self.place.begin(self._identity())
        began = self.place.load_record()
        record = began if began and began["source"] == self._identity() else None
        if self.options.unpack:
            from stage_archive import bring_archive

            return Brought(*bring_archive(self.place, self.source, lock))
        if self.is_s3:
            from stage_s3 import bring_objects

            return Brought(*bring_objects(self.place, self.source, record, lock))
        listing = scan(self.source)
        reread = self.options.reread
        sums, seen = bring_files(self.place, self.source, listing, record, lock, reread)
        return Brought(listing, sums, seen, None)

    def _write_record(self, brought: Brought, is_new: bool, lock: Lock) -> None:
        """Look at what is there now, all of it, and write it down."""
        listing = brought.listing
        rows = look(self.place.target, listing, brought.sums, brought.seen, is_new)
        job = os.environ.get("SLURM_JOB_ID", "")
        others = {"folders": listing.folders, "links": listing.links}
        record = {"source": self._identity(), "state": brought.state, "job": job, **others}
        lock.assert_held()
        self.place.write_record(record, rows)
        total = sum(row[0] for row in listing.files.values())
        tell(self.name, "complete, %s, %s" % (counted(len(listing.files), "file"), size(total)))


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


def _options(words: Sequence[str]) -> Options:
    """By hand, for `argparse` takes longer to load than a thousand files to copy."""
    places = [word for word in words if word not in _FLAGS]
    if len(places) != 2 or any(place.startswith("-") for place in places):
        sys.exit("usage: stage.py [--unpack] [--refresh] [--reread] SOURCE TARGET\n\n%s" % __doc__)
    is_asked = [flag in words for flag in _FLAGS]
    return Options(places[0], places[1], *is_asked)


def main() -> int:
    """0: the data is there; 1: it is not, and a message says why; 128 + a signal that ended it."""
    gc.disable()  # rows of a million files, and no circle among them
    options = _options(sys.argv[1:])
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
