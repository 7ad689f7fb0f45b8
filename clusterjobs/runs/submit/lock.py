"""The lock of a record of submissions: only one `submit` at a time decides what is missing.

Two locks are taken. `flock` on submissions.jsonl: the kernel releases it when its last holder ends,
and sbatch inherits it, so that a killed `submit` still holds it until its sbatch has ended. Where
the file system's flock is local to a machine, submit.lock excludes the others.
"""

import contextlib
import errno
import fcntl
import getpass
import json
import os
import pathlib
import socket
import stat
import time
from collections.abc import Callable, Iterator
from typing import BinaryIO, cast

from clusterjobs.errors import InputError, one_problem
from clusterjobs.files import open_regular
from clusterjobs.runs.jobs import folders as submissions
from clusterjobs.runs.jobs.folders import SUBMISSIONS, own_record
from clusterjobs.runs.jobs.logs_folder import share_with_group

LOCK = "submit.lock"
TIMEOUT = 120.0  # seconds
_PAUSE = 0.1  # seconds between two tries
_EMPTY = 10.0  # seconds after which nobody writes into a lock that is empty: its disk was full
_NO_FLOCK = (errno.ENOSYS, errno.EOPNOTSUPP, errno.ENOLCK, errno.EINVAL)


@contextlib.contextmanager
def submit_lock(
    folder: pathlib.Path,
    say: Callable[[str], None],
    timeout: float = TIMEOUT,
    own: bool = False,
) -> Iterator[BinaryIO]:
    """Hold the lock of the folder; gives submissions.jsonl, opened to append.

    `own`: a record and a lock of this user's, where that of another user may not be written to.
    `say` prints a message while it waits. Raises InputError if another `submit` does not end.
    """
    record, lock = folder / SUBMISSIONS, folder / LOCK
    if own and record.exists() and not os.access(record, os.W_OK):
        record, lock = folder / own_record(os.geteuid()), folder / f"{LOCK}.{os.geteuid()}"
    waiting = _Waiting(lock, say, time.monotonic() + timeout)
    with _open(record) as file:
        is_local = _flock(file, waiting)
        _make_lock(lock, waiting, may_replace=is_local)
        try:
            yield file
        finally:
            with contextlib.suppress(OSError):
                lock.unlink()


class _Waiting:
    """One pause after the other, until the timeout."""

    def __init__(self, lock: pathlib.Path, say: Callable[[str], None], end: float) -> None:
        self._lock, self._say, self._end = lock, say, end
        self._said = False

    def pause(self) -> None:
        if time.monotonic() > self._end:
            raise one_problem(
                f"{_holder(self._lock)} still holds the lock of `submit`, {self._lock}",
                hint="wait for it; if nobody is submitting now, remove that file",
            )
        if not self._said:
            self._say(f"waiting: {_holder(self._lock)} is submitting")
            self._said = True
        time.sleep(_PAUSE)


def _open(path: pathlib.Path) -> BinaryIO:
    """The file, made if it is missing."""
    flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    try:
        file = open(path, "a+b", opener=lambda name, _: os.open(name, flags, 0o644))  # noqa: SIM115
    except OSError as error:
        raise _cannot_write(path, error) from None
    found = os.fstat(file.fileno())
    if not stat.S_ISREG(found.st_mode):
        file.close()
        raise one_problem(f"{path} is a pipe or a device, and not a file", hint="remove it")
    if found.st_nlink > 1:  # of a file of this user's, by another one, perhaps
        file.close()
        what = f"{path} has another name, too (a hard link): nothing is written into it"
        raise one_problem(what, hint="move a copy of it into its place")
    if found.st_size > submissions.MOST:
        file.close()  # what is after the part that is read would be submitted again
        raise one_problem(
            f"{path} is larger than {submissions.MOST >> 20} MiB, so not all of it is read",
            hint="when no job of it is in the queue, move it away: results are kept",
        )
    share_with_group(path)
    return cast(BinaryIO, file)


def _cannot_write(path: pathlib.Path, error: OSError) -> InputError:
    hint = "check who may write there; a folder that a group shares needs chmod g+ws"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        hint = "free some space; nothing was submitted"
    return one_problem(f"cannot write {path}: {error.strerror or error}", hint=hint)


def _flock(file: BinaryIO, waiting: _Waiting) -> bool:
    """Lock the file; False if the file system has no such locks."""
    while True:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in _NO_FLOCK:
                return False
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES, errno.EINTR):
                raise
            waiting.pause()
        else:
            return True


def _make_lock(path: pathlib.Path, waiting: _Waiting, may_replace: bool) -> None:
    """Create the lock file. `may_replace`: replace a lock of a dead process on this machine.

    A lock that stays empty has no holder, whatever the machine: its disk was full.
    """
    end_of_empty = time.monotonic() + _EMPTY
    own = {
        "host": socket.gethostname(),
        "pid": os.getpid(),
        "user": user_name(),
        "time": time.strftime("%Y-%m-%d %H:%M:%S"),
    }
    while True:
        try:
            descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
        except FileExistsError:
            is_dead = may_replace and _read(path).get("host") == own["host"]
            if is_dead or (time.monotonic() > end_of_empty and _is_empty(path)):
                path.unlink(missing_ok=True)
            else:
                waiting.pause()
        except OSError as error:
            raise _cannot_write(path, error) from None
        else:
            try:
                with os.fdopen(descriptor, "w") as file:
                    json.dump(own, file)
            except OSError as error:
                path.unlink(missing_ok=True)  # an empty one would hold up every later `submit`
                raise _cannot_write(path, error) from None
            return


def _is_empty(path: pathlib.Path) -> bool:
    try:
        return path.lstat().st_size == 0
    except OSError:
        return False


def _holder(lock: pathlib.Path) -> str:
    """The holder of the lock, for a message."""
    said = _read(lock)
    if not said:
        return "another process"
    return "{user} on {host} (process {pid}, since {time})".format_map(said)


def _read(lock: pathlib.Path) -> dict[str, str]:
    """The content of the lock; empty if it cannot be read, or is not written yet."""
    try:
        with open_regular(lock) as file:
            said = json.loads(file.read(4096))
        return {key: str(said[key])[:80] for key in ("host", "pid", "user", "time")}
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return {}


def user_name() -> str:
    """The caller's name; the number if it has none."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no name in this container
        return str(os.getuid())
