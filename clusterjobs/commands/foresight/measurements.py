"""The file of measurements of each site folder: `measurements.jsonl`, one run a line.

It knows where the file is and its form; it must not know predictions.
"""

from __future__ import annotations

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from clusterjobs.commands.files import read_text
from clusterjobs.commands.foresight.measured import Measurement
from clusterjobs.commands.site_folders import MEASUREMENTS_FILE, SiteFolders, user_folder
from clusterjobs.errors import InputError, Location, one_problem


def read_measurements(site: SiteFolders) -> tuple[Measurement, ...]:
    """Those of all site folders, the newest of each folder first. Raises InputError."""
    return tuple(one for file in site.files(MEASUREMENTS_FILE) for one in _of_file(file))


def _of_file(file: pathlib.Path) -> list[Measurement]:
    lines = read_text(file).splitlines()
    return [_measurement(line, file, n) for n, line in enumerate(lines, 1) if line.strip()][::-1]


def _measurement(line: str, file: pathlib.Path, number: int) -> Measurement:
    try:
        data: Any = json.loads(line)
        found = Measurement(**data)
        key = found.key
        is_valid = isinstance(key, dict) and isinstance(key["gpu"], str)
        is_valid &= _is_number(found.step_seconds)
        is_valid &= found.peak_gib is None or _is_number(found.peak_gib)
        counts = (found.gpus, found.global_batch, found.nodes, found.steps)
        is_valid &= all(isinstance(one, int) and _is_number(one) for one in counts)
        is_valid &= isinstance(found.date, str) and isinstance(found.where, str)
    except (ValueError, TypeError, KeyError, RecursionError):
        is_valid = False
    if not is_valid:
        where = Location(str(file), number, 1, line[:200])
        hint = "remove the line, and measure again with clusterjobs calibrate"
        raise one_problem("this line is no measurement", where, hint=hint)
    return found


def _is_number(value: object) -> bool:
    """Seconds, GiB or a count that a run can have: predictions multiply and divide by it."""
    return isinstance(value, (int, float)) and 1e-9 < value < 1e12


def store(measurements: Sequence[Measurement]) -> pathlib.Path:
    """Append them to the user's own file, and return its path. Raises InputError."""
    folder = user_folder()
    if folder is None:
        raise one_problem("there is no home folder to store the measurement in", hint="set HOME")
    file = folder / MEASUREMENTS_FILE
    lines = "".join(json.dumps(one._asdict(), sort_keys=True) + "\n" for one in measurements)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with file.open("a", encoding="utf-8") as stream:
            stream.write(lines)
    except OSError as error:
        raise InputError(one_problem(f"cannot write {file}: {error.strerror}").problems) from None
    return file
