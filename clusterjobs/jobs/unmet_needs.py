"""Explains from the records of needed jobs why a job never started.

It reads the records of submissions and of jobs; it must not know Slurm.
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterable, Iterator, Mapping

from clusterjobs.jobs.records import read_folder
from clusterjobs.jobs.submissions import NeededJob, read_submissions

_COMPLETED, _CANCELLED = "completed", "cancelled"
_OF_SLURM = {"COMPLETED": _COMPLETED, "CANCELLED": _CANCELLED}
_WORDS = {
    _COMPLETED: "which completed",
    _CANCELLED: "which was cancelled",
    "": "which never started",
    "node_failure": "which lost a node",
    "time_limit": "which reached its time limit",
}


def why_never_started(needs: Iterable[NeededJob], ended: Mapping[str, str] = {}) -> str:
    """`needs prepare.yaml (job 4711), which failed`; "" if no need is a reason.

    `ended`: id -> Slurm's state of jobs that have ended, as far as Slurm knows them.
    """
    return "; ".join(_unmet(needs, ended))


def _unmet(needs: Iterable[NeededJob], ended: Mapping[str, str]) -> Iterator[str]:
    for one in needs:
        if one.on in ("success", "each", "failure"):
            how, completed = _end(one, ended)
            if completed == (one.on == "failure"):
                name = f"{one.spec} (job {one.job_id})" if one.spec else f"job {one.job_id}"
                yield f"needs {name}, {how}"


def _end(need: NeededJob, ended: Mapping[str, str]) -> tuple[str, bool]:
    """How a needed job ended, in words, and whether it ended well."""
    folder, array = pathlib.Path(need.folder), need.job_id.partition("_")[0]
    for one in read_submissions(folder):
        if str(one.job_id) == array and "" not in one.points:
            return _of_points(folder, one.points.values())
    reason = _reason(folder / need.job_id) or _OF_SLURM.get(ended.get(need.job_id, ""), "")
    if not reason and need.job_id in ended:
        reason = "failure"
    if not reason and not need.spec:  # its records are elsewhere
        return "which did not end as needed", need.on == "failure"
    return _WORDS.get(reason, "which failed"), reason == _COMPLETED


def _reason(job: pathlib.Path) -> str:
    """The reason of the job's last attempt; "" without a record."""
    attempts = read_folder(job).attempts
    return attempts[-1].reason if attempts else ""


def _of_points(sweep: pathlib.Path, names: Iterable[str]) -> tuple[str, bool]:
    """The same for the points of an array. Each has a folder for each of its jobs."""
    reasons = []
    for name in names:
        jobs = [one for one in (sweep / name).glob("[0-9]*") if one.name.isdecimal()]
        reasons.append(_reason(max(jobs, key=lambda job: int(job.name))) if jobs else "")
    wrong = sum(one != _COMPLETED for one in reasons)
    if not wrong:
        return _WORDS[_COMPLETED], True
    return f"of which {wrong} of {len(reasons)} points did not complete", False
