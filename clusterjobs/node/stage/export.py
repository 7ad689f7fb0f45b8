"""Copy new and changed files: `export.py [--every S] [--overwrite] SOURCE TARGET [...]`.

TARGET is a folder or s3://bucket/prefix. With `--every` it repeats until it gets SIGTERM. Nothing
is ever removed from a target, and what was not exported from SOURCE is not overwritten, unless
`--overwrite` stands before it. A file that is still being written is left for the next round. A
marker file that names the latest checkpoint is copied last, so that it never names a missing one.
A failed export is retried.
"""

from __future__ import annotations

import importlib
import os
import sys
import time
from typing import Dict, List, Sequence, Tuple

from export_folder import Export, export_to_folder
from stage_lab import folder_for
from stage_log import (
    SourceError,
    StageError,
    Stopped,
    log,
    os_failure,
    printable,
    raise_on_signals,
    record_status,
)

ROUNDS = 3  # 1 and 4 s apart: Slurm gives a job 30 s to end
_recorded: Dict[Export, str] = {}
SETTLED_SECONDS = 10  # a file written to more recently may be incomplete


def export(one: Export, settled: float) -> None:
    """Update the target. Raises StageError if that fails."""
    if not os.path.isdir(one.source):
        return  # nothing has been written yet
    folder = folder_for(one.target) or one.target
    if folder.startswith("s3://"):  # a job carries the module only if it is needed
        left: List[str] = importlib.import_module("export_bucket").export_to_bucket(one)
    else:
        left = export_to_folder(one._replace(target=folder), settled)
    if left and not settled:
        raise StageError("%s: changed while it was copied" % printable(left[0]))


# ------------------------------------------------------------------ the command line


def _parse_arguments(words: Sequence[str]) -> Tuple[float, List[Export]]:
    every, left, exports = 0.0, list(words), []
    if left[:1] == ["--every"]:
        every, left = float(left[1]), left[2:]
    while left:
        overwrite = left[0] == "--overwrite"
        pair, left = left[overwrite : 2 + overwrite], left[2 + overwrite :]
        if len(pair) < 2 or pair[0].startswith("-"):
            sys.exit(__doc__)
        exports.append(Export(pair[0], pair[1], overwrite))
    return every, exports


def main() -> int:
    """0: everything is copied; 1: not everything, and a message says why."""
    every, exports = _parse_arguments(sys.argv[1:])
    os.umask(os.umask(0) | 0o002)  # no other user may write to what is made here
    raise_on_signals()
    try:
        while every:
            for one in exports:
                _export_with_retries(one, SETTLED_SECONDS, 1)
            time.sleep(every)
        good = [_export_with_retries(one, 0, ROUNDS) for one in exports]
        return 0 if all(good) else 1
    except Stopped as stopped:
        return int(stopped.exit_code)


def _export_with_retries(one: Export, settled: float, rounds: int) -> bool:
    is_last = rounds > 1
    if is_last:  # stays there if the job is killed before the end
        _record(one, "INCOMPLETE: the last copy has not ended")
    for number in range(rounds):
        try:
            export(one, settled)
            _record(one, "complete" if is_last else "up to date")
            return True
        except StageError as caught:
            error = caught
        except OSError as caught:
            error = os_failure(str(caught.filename or one.target), caught)
        log("export failed: %s" % error)
        if isinstance(error, SourceError):  # another try would get the same answer
            break
        if number + 1 < rounds:
            time.sleep(4**number)
    if is_last:
        log("export %s: INCOMPLETE in %s" % (printable(one.source), printable(one.target)))
    _record(one, "%s: %s" % ("INCOMPLETE" if is_last else "failed", error))
    return False


def _record(one: Export, said: str) -> None:
    """For `clusterjobs status`, if it is new: the job's folder may itself be exported."""
    if _recorded.get(one) != said:
        _recorded[one] = said
        record_status("export %s to %s" % (printable(one.source), printable(one.target)), said)


if __name__ == "__main__":
    sys.exit(main())
