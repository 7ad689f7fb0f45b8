"""What was exported from one source path to a target: other files there are never overwritten.

It knows the text of the hidden file in the target that says so; it reads and writes no files. In
the target it outlives the source. A file is announced before it is copied, so that an export that
was killed is known as well.
"""

from __future__ import annotations

import hashlib
import json
import os
from typing import Any, Dict, List, Sequence

from stage_log import EXPORT_RECORD, SourceError, counted, not_ours, printable

_VERSION = 2
State = List[int]  # size and mtime


class ExportRecord:
    """The files that one source path has exported, each in the states that the target may have.

    The path counts as it is written: a new folder of the same name continues the export.
    """

    def __init__(self, source: str) -> None:
        self._source = os.path.abspath(source)
        digest = hashlib.sha256(os.fsencode(self._source)).hexdigest()[:12]
        self.name = "%s%s.json" % (EXPORT_RECORD, digest)
        self._states: Dict[str, List[State]] = {}

    def load(self, text: str) -> None:
        """Continue an earlier export. A damaged record counts as none."""
        try:
            record: Dict[str, Any] = json.loads(text)
            if record["version"] == _VERSION and record["source"] == self._source:
                self._states = dict(record["files"])
        except (ValueError, KeyError, TypeError):
            return

    def states(self, name: str) -> List[State]:
        """The states in which the target may have the file, if it was exported."""
        return self._states.get(name, [])

    def is_known(self, name: str) -> bool:
        """Whether a file of this name was exported."""
        return name in self._states

    def text_with(self, states: Dict[str, List[State]]) -> str:
        """Add files that the target may have from now on. Returns the text to be written there."""
        self._states.update(states)
        return json.dumps(
            {"version": _VERSION, "source": self._source, "files": self._states},
            separators=(",", ":"),
        )


def refuse(source: str, foreign: Sequence[str], changed: Sequence[str] = ()) -> None:
    """Raises SourceError if the target has files that were not exported, or changed since."""
    found = []
    if foreign:
        found.append(not_ours(foreign, "exported from %s" % printable(source)))
    if changed:
        verb = "were" if len(changed) > 1 else "was"
        found.append("%s %s changed there since the last export" % (counted(changed), verb))
    if found:
        raise SourceError(
            "%s: NOTHING IS COPIED: choose another target, move away what is to be kept, or set "
            "overwrite: true beside export" % "; ".join(found)
        )
