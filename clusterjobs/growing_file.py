"""Reads a file that another process is writing, as it grows."""

from __future__ import annotations

import codecs
import os
from collections.abc import Iterator
from pathlib import Path

from clusterjobs.regular_file import open_regular

_PART = 1 << 22  # bytes that are read at a time: a log may be larger than the memory


class GrowingFile:
    """Returns the text that was added to a file since the last call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._owner: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

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
                if now.st_size < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                added = file.read(most)
        except (FileNotFoundError, NotADirectoryError):
            return ""
        self._offset += len(added)
        return self._decoder.decode(added)

    def is_foreign(self) -> bool:
        """Whether the text that was read last is that of another user."""
        return self._owner not in (None, os.geteuid())
