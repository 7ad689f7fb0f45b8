"""How Slurm writes several tasks of an array: `0-3,7` and `4711_[0-3,7]`. Pure."""

from __future__ import annotations

from collections.abc import Iterable


def as_ranges(indexes: Iterable[int]) -> str:
    """The indexes as in `sbatch --array`: `0-3,7,9-11`."""
    ranges: list[list[int]] = []
    for index in sorted(set(indexes)):
        if ranges and index == ranges[-1][1] + 1:
            ranges[-1][1] = index
        else:
            ranges.append([index, index])
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in ranges)


def joined_tasks(job_ids: Iterable[str]) -> dict[str, list[str]]:
    """Jobs as scancel takes them with few words: `4711_[0-3,7]` -> its tasks, `12` -> itself."""
    arrays: dict[str, dict[int, str]] = {}
    found: dict[str, list[str]] = {}
    for job_id in job_ids:
        array, mark, index = job_id.partition("_")
        if mark:
            arrays.setdefault(array, {})[int(index)] = job_id
        else:
            found[job_id] = [job_id]
    for array, tasks in arrays.items():
        several = f"{array}_[{as_ranges(tasks)}]"
        found[several if len(tasks) > 1 else next(iter(tasks.values()))] = list(tasks.values())
    return found
