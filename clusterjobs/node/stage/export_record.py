"""What was exported from a folder to a target: other files there are never overwritten.

It knows the hidden file in the folder that says so; it copies nothing. A file is announced before
it is copied, so that an export that was killed is known as well.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List, Sequence

from stage_log import SourceError, os_failure, plural, printable

RECORD = ".exported-"
_VERSION = 1
State = List[int]  # size and mtime


class ExportRecord:
    """The files that were exported to one target, each in the states that the target may have."""

    def __init__(self, source: str, target: str) -> None:
        self._target = target.rstrip("/")
        digest = hashlib.sha256(os.fsencode(self._target)).hexdigest()[:12]
        self._path = os.path.join(source, "%s%s.json" % (RECORD, digest))
        self._states: Dict[str, List[State]] = self._load()

    def states(self, name: str) -> List[State]:
        """The states in which the target may have the file, if it was exported."""
        return self._states.get(name, [])

    def is_known(self, name: str) -> bool:
        """Whether a file of this name was exported."""
        return name in self._states

    def announce(self, states: Dict[str, List[State]]) -> None:
        """From now on the target may have these files, in one of these states each."""
        self._states.update(states)
        record = {"version": _VERSION, "target": self._target, "files": self._states}
        new = self._path + ".new"
        try:
            if os.path.lexists(new):
                os.unlink(new)
            with open(new, "x") as file:
                json.dump(record, file)
                file.flush()
                os.fsync(file.fileno())
            os.rename(new, self._path)
        except OSError as error:
            raise os_failure(self._path, error) from None

    def refuse(self, conflicts: Sequence[str]) -> None:
        """Raises SourceError if there are files in the target that were not exported."""
        if conflicts:
            more = len(conflicts) - 1
            others = " (nor were %s more)" % plural(more, "file") if more else ""
            raise SourceError(
                "%s exists and was not exported from here%s, so nothing is copied: choose another "
                "target, or set overwrite: true beside export"
                % (printable(sorted(conflicts)[0]), others)
            )

    def _load(self) -> Dict[str, Any]:
        try:
            with open(os.open(self._path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC)) as file:
                record = json.load(file)
            return dict(record["files"]) if record["version"] == _VERSION else {}
        except (OSError, ValueError, KeyError, TypeError):
            return {}
