"""Of all jobs that stage the same data, one at a time; the death of a holder frees the lock.

The lock is flock(2): the kernel, or the file server where the node itself died, takes it from a
holder that is gone, so that nobody has to guess from a clock who is still alive. ParallelCluster
mounts FSx for Lustre with `flock`, which makes it one lock for all nodes; NFS (EFS) has the same.
A file system without it answers ENOSYS or the like. There a lease is kept: a file that its holder
touches from a thread of its own, whatever it is at, and that others take over when it has stood
still for a minute by their own clock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import time
from typing import Any, Tuple

from stage_log import StageError, failure, mark, tell

LEASE_SECONDS = 60
_BEAT_SECONDS = 5
_POLL_SECONDS = 0.5
_SAY_EVERY_SECONDS = 30
_NO_FLOCK = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


class Lock:
    """Held from `acquire` to the end of the process and of those that it started."""

    def __init__(self, path: str, what: str) -> None:
        self._path = path
        self._what = what
        self._lease = path + ".lease"
        self._moves = path + ".moves"
        self._has_lease = False
        self._seen: Tuple[str, float] = ("", 0.0)
        self._changed = self._looked = time.monotonic()
        self._released: Any = None  # an event, where a lease is kept
        self._moved = -float(_BEAT_SECONDS)
        self._me = "job %s on %s, process %d" % (
            os.environ.get("SLURM_JOB_ID", "?"),
            os.uname().nodename,
            os.getpid(),
        )

    def acquire(self) -> None:
        """Wait for it, and say in the log for whom."""
        self._file = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
        said = -float(_SAY_EVERY_SECONDS)
        moves = self._time_of_moves()
        while not self._try():
            if self._time_of_moves() != moves:
                mark()
            if time.monotonic() - said >= _SAY_EVERY_SECONDS:
                said = time.monotonic()
                tell(self._what, "waiting for %s" % (self._holder() or "another job"))
            time.sleep(_POLL_SECONDS)
        if self._has_lease:
            import threading

            self._released = threading.Event()
            threading.Thread(target=self._keep_lease, daemon=True).start()
        else:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, self._me.encode(), 0)

    def descriptor(self) -> int:
        """For programs that write on our behalf: they hold the lock too, until they end."""
        return self._file

    def beat(self) -> None:
        """Called while the work goes on. Raises StageError where the lease is lost."""
        now = time.monotonic()
        if self._has_lease and now - self._looked >= _BEAT_SECONDS:
            self._looked = now
            self.assert_held()

    def moved(self) -> None:
        """Data has come and stays: nearer to the end for this job, and for all that wait."""
        now = time.monotonic()
        if now - self._moved >= _BEAT_SECONDS:
            self._moved = now
            mark()
            open(self._moves, "a").close()
            os.utime(self._moves)

    def _time_of_moves(self) -> int:
        try:
            return os.stat(self._moves).st_mtime_ns
        except OSError:
            return 0

    def assert_held(self) -> None:
        """Raise StageError where another job has taken the lease over."""
        if self._has_lease and self._read(self._lease) != self._me:
            self._has_lease = False
            raise StageError("%s: another job took the lease over" % self._lease)

    def release(self) -> None:
        if self._released:
            self._released.set()
        if self._has_lease and self._read(self._lease) == self._me:
            os.unlink(self._lease)
        os.close(self._file)

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            if error.errno in _NO_FLOCK:
                return self._try_lease()
            raise failure(self._path, error) from None

    # -------------------------------------------------------------- where there is no flock

    def _keep_lease(self) -> None:
        while not self._released.wait(_BEAT_SECONDS):
            if self._read(self._lease) != self._me:
                return  # whoever holds it now; `assert_held` says so
            with contextlib.suppress(OSError):  # the next time, perhaps
                os.utime(self._lease)

    def _try_lease(self) -> bool:
        mine = "%s.%d.%s" % (self._lease, os.getpid(), os.uname().nodename)
        with open(mine, "w") as file:
            file.write(self._me)
        try:
            os.link(mine, self._lease)  # whole or not at all, on every file system
            self._has_lease = True
            return True
        except FileExistsError:
            self._take_from_the_dead(mine)
            return False
        finally:
            os.unlink(mine)

    def _take_from_the_dead(self, mine: str) -> None:
        """Put a lease away that has not been touched for long, unless it is a new one by now."""
        try:
            seen = (self._read(self._lease), os.stat(self._lease).st_mtime)
        except OSError:
            return
        if seen != self._seen:
            self._seen, self._changed = seen, time.monotonic()
        elif time.monotonic() - self._changed >= LEASE_SECONDS:
            away = mine + ".old"
            try:
                os.rename(self._lease, away)
                if self._read(away) != seen[0]:  # somebody was faster, and this is theirs
                    os.link(away, self._lease)
                os.unlink(away)
            except OSError:
                return

    def _holder(self) -> str:
        return self._read(self._lease) or self._read(self._path)

    def _read(self, path: str) -> str:
        try:
            with open(path) as file:
                return file.read()
        except OSError:
            return ""
