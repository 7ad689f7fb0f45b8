"""Which folders other users of the cluster could misuse, by the permissions along their paths.

It knows owners and permissions; it must not know what the folders are used for. Trusted are the
user, root, and everybody who may write to a folder that is not open to all users, such as the group
of a project folder. So whatever lies below a folder that all users may write to must be one's own.
"""

from __future__ import annotations

import errno
import os
import pwd
import stat

from stage_log import SourceError, printable, quoted

_MAX_LINKS = 40  # as the kernel's own limit


def check_path(path: str) -> None:
    """Raises SourceError if an untrusted user could replace a part of an absolute path.

    Links count as well, since whoever owns a link chooses where the path leads. A part that does
    not exist yet ends the check: call it again when the path has been created.
    """
    here, links = "/", 0
    waiting = path.split("/")[::-1]
    while waiting:
        name = waiting.pop()
        folder = os.stat(here)
        _check_folder(here, folder)
        if name in ("", "."):
            continue
        if name == "..":
            here = os.path.dirname(here)
            continue
        inner = os.path.join(here, name)
        try:
            status = os.lstat(inner)
        except (FileNotFoundError, NotADirectoryError):
            return
        _check_owner(inner, status, folder, may_be_shared=True)
        if stat.S_ISLNK(status.st_mode):
            links += 1
            if links > _MAX_LINKS:
                raise OSError(errno.ELOOP, os.strerror(errno.ELOOP), path)
            link = os.readlink(inner)
            here = "/" if link.startswith("/") else here
            waiting += link.split("/")[::-1]
        else:
            here = inner
    _check_folder(here, os.stat(here))


def open_trusted(path: str) -> int:
    """Open a file to read it. Raises SourceError if an untrusted user could have made it."""
    check_path(path)
    file = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:  # it may have been planted since
        _check_owner(path, os.fstat(file), os.stat(os.path.dirname(path)), may_be_shared=False)
    except BaseException:
        os.close(file)
        raise
    return file


def make_private(path: str) -> None:
    """Create a folder that nobody else can plant files in, or check that an existing one is such.

    Below a folder that all users may write to, nobody else can even read it. Raises SourceError.
    """
    above = os.path.dirname(path)
    check_path(above)
    mode = os.stat(above).st_mode
    try:
        os.mkdir(path, 0o700 if mode & stat.S_IWOTH else 0o755 | (mode & stat.S_IWGRP))
    except FileExistsError:
        pass
    check_private(path)


def check_private(path: str) -> None:
    """Raises SourceError unless a folder, if it exists, belongs to a trusted user."""
    try:
        folder = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            what = "not a folder, but staging needs one there: move it away"
            raise SourceError("%s: %s" % (printable(path), what)) from None
        raise
    try:
        status = os.fstat(folder)
    finally:
        os.close(folder)
    _check_owner(path, status, os.stat(os.path.dirname(path)), may_be_shared=False)
    if status.st_mode & stat.S_IWOTH:
        what = "everyone may write to %s, so its contents cannot be trusted: move it away"
        raise SourceError(what % printable(path))


def _check_folder(path: str, status: os.stat_result) -> None:
    mode = status.st_mode
    if stat.S_ISDIR(mode) and mode & stat.S_IWOTH and not mode & stat.S_ISVTX:
        owner = ""
        choices = "choose a folder that only you or your group may write to"
        if status.st_uid == os.geteuid() or not os.geteuid():
            choices = "chmod +t %s, or %s" % (quoted(path), choices)
        else:
            owner = ", which belongs to %s" % _name_of(status.st_uid)
        raise SourceError("everyone may write to %s%s: %s" % (printable(path), owner, choices))


def _check_owner(
    path: str, status: os.stat_result, folder: os.stat_result, may_be_shared: bool
) -> None:
    """The owner of a folder may replace its contents anyway. `may_be_shared`: by one's group."""
    if not folder.st_mode & stat.S_IWOTH:
        return
    if status.st_uid in (os.geteuid(), 0, folder.st_uid):
        return
    is_group_folder = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_IWGRP
    groups = {os.getegid(), *os.getgroups()}
    proves = not folder.st_mode & stat.S_ISGID  # else a stranger's folder gets the group, too
    if may_be_shared and is_group_folder and proves and status.st_gid in groups:
        return
    above = os.path.dirname(path)
    raise SourceError(
        "%s belongs to %s, and everyone may write to %s: choose a path below a folder of your "
        "own, for example: mkdir -m 700 %s"
        % (
            printable(path),
            _name_of(status.st_uid),
            printable(above),
            quoted(os.path.join(above, _own_name())),
        )
    )


def _name_of(user: int) -> str:
    try:
        return pwd.getpwuid(user).pw_name
    except KeyError:
        return str(user)


def _own_name() -> str:
    return _name_of(os.geteuid())
