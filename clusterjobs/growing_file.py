"""Reads a file that another process is writing, as it grows."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

from clusterjobs.regular_file import open_regular


class GrowingFile:
    """Returns the text that was added to a file since the last call."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._offset = 0
        self._owner: int | None = None
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def new_text(self) -> str:
        """The new text: "" while the file is missing, all of it if a requeued job rewrote it."""
        try:
            with open_regular(self.path) as file:
                now = os.fstat(file.fileno())
                self._owner = now.st_uid
                if now.st_size < self._offset:
                    self._offset = 0
                file.seek(self._offset)
                added = file.read()
        except (FileNotFoundError, NotADirectoryError):
            return ""
        self._offset += len(added)
        return self._decoder.decode(added)

    def is_foreign(self) -> bool:
        """Whether the text that was read last is that of another user."""
        return self._owner not in (None, os.geteuid())
