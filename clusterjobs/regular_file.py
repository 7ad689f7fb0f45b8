"""Opens files in folders where other users may write.

A link, a pipe or a device that another user has planted under the name of a file is not opened.
"""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_regular(path: Path) -> BinaryIO:
    """The file, opened for reading. Raises OSError if it is no regular file, or cannot be read."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        raise _not_regular(path) from None
    except ValueError as error:  # a path with a NUL byte
        raise OSError(errno.EINVAL, str(error), str(path)) from None
    file = os.fdopen(descriptor, "rb")
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        file.close()
        raise _not_regular(path)
    return file


def _not_regular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "it is a link, a pipe or a device, and not a file", str(path))
