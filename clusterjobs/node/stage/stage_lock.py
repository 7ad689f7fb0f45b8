"""A lock for all jobs that stage the same data; it is released when its holder dies.

It is flock(2): the kernel releases it when a process ends, and the file server when a node dies, so
no job has to decide by a clock whether another one is alive. Lustre mounted with `flock` (as
ParallelCluster does) and NFS lock across nodes. Other file systems fail with ENOSYS or the like. On
those the lock is a lease: a file that its holder touches from a thread, and that another job takes
over when it has not changed for a minute by that job's clock.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import threading
import time
from typing import Any, Tuple

from stage_log import LeaseLostError, mark_progress, os_failure, report_status

LEASE_SECONDS = 60
_RENEW_SECONDS = 5
_POLL_SECONDS = 0.5
_REPORT_SECONDS = 30
_NO_FLOCK = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


class Lock:
    """Held from `acquire` until this process and all that it has started have ended."""

    def __init__(self, path: str, what: str) -> None:
        self._path = path
        self._what = what
        self._lease = path + ".lease"
        self._progress_file = path + ".progress"
        self._has_lease = False
        self._last_seen: Tuple[str, float] = ("", 0.0)
        self._last_change = self._last_check = time.monotonic()
        self._stop_renewing: Any = None  # an event, if the lock is a lease
        self._last_progress = -float(_RENEW_SECONDS)
        self._holder_id = "job %s on %s, process %d" % (
            os.environ.get("SLURM_JOB_ID", "?"),
            os.uname().nodename,
            os.getpid(),
        )

    def acquire(self) -> None:
        """Wait for the lock, and report who holds it. Raises FileNotFoundError without its folder.

        The holder before may have removed the folder when it left nothing there.
        """
        self._file = _open_lock(self._path)
        reported = -float(_REPORT_SECONDS)
        progress = self._progress_time()
        while not self._try():
            if self._progress_time() != progress:
                mark_progress()
            if time.monotonic() - reported >= _REPORT_SECONDS:
                reported = time.monotonic()
                holder = self._current_holder() or "another job"
                report_status(self._what, "waiting for %s" % holder)
            time.sleep(_POLL_SECONDS)
        if self._has_lease:
            self._stop_renewing = threading.Event()
            threading.Thread(target=self._renew_lease, daemon=True).start()
        else:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, self._holder_id.encode(), 0)

    def descriptor(self) -> int:
        """For child processes that write to the copy: they inherit the lock and hold it, too."""
        return self._file

    def check_lease(self) -> None:
        """Call this about once a second. Raises LeaseLostError if the lease is lost."""
        now = time.monotonic()
        if self._has_lease and now - self._last_check >= _RENEW_SECONDS:
            self._last_check = now
            self.assert_held()

    def report_progress(self) -> None:
        """Mark progress for this job, and for the jobs that wait for it."""
        now = time.monotonic()
        if now - self._last_progress >= _RENEW_SECONDS:
            self._last_progress = now
            mark_progress()
            open(self._progress_file, "a").close()
            os.utime(self._progress_file)

    def _progress_time(self) -> int:
        try:
            return os.stat(self._progress_file).st_mtime_ns
        except OSError:
            return 0

    def assert_held(self) -> None:
        """Raises LeaseLostError if another job has taken over the lease."""
        if self._has_lease and self._read(self._lease) != self._holder_id:
            self._has_lease = False
            raise LeaseLostError("%s: another job took over the lease" % self._lease)

    def release(self) -> None:
        """Remove the files of the lock, and release it."""
        if self._stop_renewing:
            self._stop_renewing.set()
        if self._has_lease and self._read(self._lease) == self._holder_id:
            os.unlink(self._lease)
        elif self.is_flock and self._is_current():  # whoever waits notices that the file is gone
            for path in (self._progress_file, self._path):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(path)
        os.close(self._file)

    @property
    def is_flock(self) -> bool:
        """Whether the kernel holds the lock: a lease may have been lost."""
        return self._stop_renewing is None

    def _try(self) -> bool:
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in (errno.EAGAIN, errno.EACCES):
                return False
            if error.errno in _NO_FLOCK:
                return self._try_lease()
            raise os_failure(self._path, error) from None
        if self._is_current():
            return True
        os.close(self._file)  # the holder before has removed it
        self._file = _open_lock(self._path)
        return False

    def _is_current(self) -> bool:
        """Whether the open file is still the one of this name."""
        try:
            return os.path.samestat(os.stat(self._path), os.fstat(self._file))
        except FileNotFoundError:
            return False

    # -------------------------------------------------------------- without flock

    def _renew_lease(self) -> None:
        while not self._stop_renewing.wait(_RENEW_SECONDS):
            if self._read(self._lease) != self._holder_id:
                return  # `assert_held` reports it
            with contextlib.suppress(OSError):  # it may succeed the next time
                os.utime(self._lease)

    def _try_lease(self) -> bool:
        mine = "%s.%d.%s" % (self._lease, os.getpid(), os.uname().nodename)
        with open(
            os.open(mine, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW), "w"
        ) as file:
            file.write(self._holder_id)
        try:
            os.link(mine, self._lease)  # atomic on every file system
            self._has_lease = True
            return True
        except FileExistsError:
            self._take_over_expired(mine)
            return False
        finally:
            os.unlink(mine)

    def _take_over_expired(self, mine: str) -> None:
        """Remove a lease that has not been renewed, unless another job has replaced it by now."""
        try:
            seen = (self._read(self._lease), os.stat(self._lease).st_mtime)
        except OSError:
            return
        if seen != self._last_seen:
            self._last_seen, self._last_change = seen, time.monotonic()
        elif time.monotonic() - self._last_change >= LEASE_SECONDS:
            old = mine + ".old"
            try:
                os.rename(self._lease, old)
                if self._read(old) != seen[0]:  # another job was faster, and this is its lease
                    os.link(old, self._lease)
                os.unlink(old)
            except OSError:
                return

    def _current_holder(self) -> str:
        return self._read(self._lease) or self._read(self._path)

    def _read(self, path: str) -> str:
        try:
            with open(path) as file:
                return file.read()
        except OSError:
            return ""


def _open_lock(path: str) -> int:
    """Whoever may read a lock file may hold its lock: only those who may write beside it."""
    group = os.stat(os.path.dirname(path)).st_mode & 0o020
    mode = 0o660 if group else 0o600
    file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, mode)
    if os.fstat(file).st_uid == os.geteuid():
        os.fchmod(file, mode)
    return file
