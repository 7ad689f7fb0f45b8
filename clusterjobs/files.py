"""Opens files in folders where other users may write.

A link, a pipe or a device that another user has planted under the name of a file is not opened.
"""

import codecs
import errno
import os
import select
import stat
from collections.abc import Callable, Iterator
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


_PATIENCE = 10.0  # seconds until a program must have written into a pipe


def open_or_wait(path: Path) -> BinaryIO:
    """The file, opened for reading, or a pipe into which a program writes: `<(...)` in a shell.

    Raises OSError, also for a pipe into which nobody writes, and for a device such as /dev/zero:
    reading it would take for ever.
    """
    file = os.fdopen(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb")
    os.set_blocking(file.fileno(), True)
    mode = os.fstat(file.fileno()).st_mode
    if (stat.S_ISCHR(mode) or stat.S_ISBLK(mode)) and not file.isatty():
        file.close()
        raise OSError(errno.EINVAL, "it is a device, and not a file", str(path))
    if stat.S_ISFIFO(mode):
        poll = select.poll()
        poll.register(file, select.POLLIN | select.POLLHUP)
        if not poll.poll(_PATIENCE * 1000):
            file.close()
            raise OSError(errno.ETIMEDOUT, "nobody writes into this pipe", str(path))
    return file


def _not_regular(path: Path) -> OSError:
    return OSError(errno.EINVAL, "it is a link, a pipe or a device, and not a file", str(path))


# ------------------------------------------------------------------ growing file
# Reads a file that another process is writing, as it grows, or its last lines.


_PART = 1 << 22  # bytes that are read at a time: a log may be larger than the memory
_BLOCK = 1 << 16  # bytes that are read at a time from the end
_START = 1024  # bytes at the start of a line that are passed to `counts`


class GrowingFile:
    """Returns the text that was added to a file since the last call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._inode = 0
        self.is_gone = False  # missing when it was last read
        self._owner: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def skip_to_last(self, lines: int, counts: Callable[[str], bool] | None = None) -> None:
        """Start at the last `lines` lines: with `counts`, of those for which it is true.

        `counts` gets the first characters of a line. The file is read from its end.
        """
        try:
            with open_regular(self.path) as file:
                self._offset = _start_of_last(file, lines, counts)
        except (FileNotFoundError, NotADirectoryError):
            return

    def new_parts(self) -> Iterator[str]:
        """The new text in parts that fit into memory."""
        while text := self.new_text(_PART):
            yield text

    def new_text(self, most: int = -1) -> str:
        """The new text: "" while the file is missing, all of it if a requeued job rewrote it.

        `most`: bytes to read; -1: all.
        """
        try:
            with open_regular(self.path) as file:
                now = os.fstat(file.fileno())
                self._owner = now.st_uid
                if now.st_size < self._offset or now.st_ino != (self._inode or now.st_ino):
                    self._offset = 0
                self._inode, self.is_gone = now.st_ino, False
                file.seek(self._offset)
                added = file.read(most)
        except (FileNotFoundError, NotADirectoryError):
            self.is_gone = True
            return ""
        self._offset += len(added)
        return self._decoder.decode(added)

    def is_foreign(self) -> bool:
        """Whether the text that was read last is that of another user."""
        return self._owner not in (None, os.geteuid())


def _start_of_last(file: BinaryIO, lines: int, counts: Callable[[str], bool] | None) -> int:
    """The position of the first of the last `lines` lines that count; 0 if there are fewer."""
    end = position = file.seek(0, os.SEEK_END)
    if not lines:
        return end
    found, after = 0, b""  # the bytes that follow `position`
    while position:
        start = max(0, position - _BLOCK)
        file.seek(start)
        block = file.read(position - start)
        text, newline = block + after, len(block)
        while (newline := block.rfind(b"\n", 0, newline)) >= 0:
            line = newline + 1
            if start + line == end:
                continue  # the end of the last line
            if counts is None or counts(_first_characters(text, line)):
                found += 1
                if found == lines:
                    return start + line
        after, position = text[:_START], start
    return 0


def _first_characters(text: bytes, start: int) -> str:
    return text[start : start + _START].partition(b"\n")[0].decode(errors="replace")
