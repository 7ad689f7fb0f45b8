"""Jobs that ended before they had a folder below `logs`, for example because it is not safe.

They are known from Slurm for some minutes, and by the file of sbatch's --output. Jobs that
have a folder are in records.py.
"""

import os
import pathlib
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

from clusterjobs.node.job.attempt_files import read_end
from clusterjobs.runs.jobs.folders import NeededJob, Submission, read_submissions
from clusterjobs.runs.jobs.records import read_folder
from clusterjobs.slurm.queue import shown_job

# ------------------------------------------------------------------ unmet needs
# Explains from the records of needed jobs why a job never started.


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
    """The same of the points of an array; each has a folder for each of its jobs."""
    reasons = []
    for name in names:
        jobs = [one for one in (sweep / name).glob("[0-9]*") if one.name.isdecimal()]
        reasons.append(_reason(max(jobs, key=lambda job: int(job.name))) if jobs else "")
    wrong = sum(one != _COMPLETED for one in reasons)
    if not wrong:
        return _WORDS[_COMPLETED], True
    return f"of which {wrong} of {len(reasons)} points did not complete", False


DEFAULT_OUTPUT = "%x-%j.out"  # of sbatch --output, in the job script

_ENDED = re.compile(r"(?m)^clusterjobs: job [0-9_]+ ended with exit code")


class Unstarted(NamedTuple):
    """Slurm's state of the job, "" if forgotten; its output; why it ended, as far as known."""

    state: str
    output: pathlib.Path | None
    why: str

    def note(self, job_id: str) -> str:
        """What is known, and where the rest stands."""
        where = f"its output is in {self.output}" if self.output else "it has left no output here"
        why = f": {self.why}" if self.why else ""
        return f"job {job_id} ended before it had a folder{why}; {where}"


def unstarted_jobs(
    name: str,
    pattern: str,
    ended: Mapping[str, str],
    known: Iterable[str],
    on_this_machine: Callable[[str], pathlib.Path],
) -> dict[str, Unstarted]:
    """The jobs of that name without a folder. `ended`: their states; `known`: ids to leave out.

    `pattern`: of sbatch --output. A job whose output says how it ended had a folder elsewhere.
    """
    known = set(known)
    found: dict[str, Unstarted] = {}
    files = _outputs(name, pattern)
    for job_id in sorted({*files, *ended} - known, key=int):
        output = files.get(job_id)
        if job_id in ended:
            output = output_in_slurm(job_id, on_this_machine) or output
        text = _end_of(output)
        had_folder = _ENDED.search(text) or ended.get(job_id) == "COMPLETED"
        if not had_folder and (text or job_id in ended):
            found[job_id] = Unstarted(ended.get(job_id, ""), output if text else None, _why(text))
    return found


def jobs_with_unmet_needs(
    submissions: Iterable[Submission], ended: Mapping[str, str], known: Iterable[str]
) -> dict[str, Unstarted]:
    """The jobs that Slurm cancelled because one that they need did not end as wished.

    `submissions` of one spec. `ended`: states of its jobs; `known`: ids to leave out.
    """
    known = set(known)
    return {
        str(one.job_id): Unstarted("CANCELLED", None, why)
        for one in submissions
        if one.job_id is not None and str(one.job_id) not in known
        if (why := why_never_started(one.needs, ended))
    }


def cancelled_before_start(
    submissions: Iterable[Submission], known: Iterable[str]
) -> dict[str, Unstarted]:
    """The single jobs that `cancel` has cancelled and that have no folder. `known`: see above."""
    known = set(known)
    return {
        str(one.job_id): Unstarted("CANCELLED", None, "cancelled before it started")
        for one in submissions
        if one.job_id is not None and "" in one.cancelled and str(one.job_id) not in known
    }


def _outputs(name: str, pattern: str) -> dict[str, pathlib.Path]:
    """The files in the folder of `pattern` that are the output of a job of that name, by its id."""
    folder, file = os.path.split(pattern)
    before, has_id, after = file.replace("%A", "%j").partition("%j")
    before, after = before.replace("%x", name), after.replace("%x", name)
    try:
        paths = list(pathlib.Path(folder or ".").iterdir()) if has_id else []
    except OSError:
        return {}
    ids = ((path.name.removeprefix(before).removesuffix(after), path) for path in paths)
    return {
        job_id: path
        for job_id, path in ids
        if job_id.isdecimal() and path.name == f"{before}{job_id}{after}"
    }


def output_in_slurm(
    job_id: str, on_this_machine: Callable[[str], pathlib.Path]
) -> pathlib.Path | None:
    """The file of sbatch's --output, on this machine; None if Slurm has forgotten the job."""
    from clusterjobs.slurm.jobs import parse_job

    shown = shown_job(job_id)
    output = parse_job(shown).stdout if shown.strip() else ""
    return on_this_machine(output) if output else None


def _end_of(output: pathlib.Path | None) -> str:
    try:
        return read_end(str(output)) if output else ""
    except OSError:
        return ""


def _why(text: str) -> str:
    """The last message of the job script, else the last line of all."""
    lines = [line for line in text.splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("clusterjobs: ")]
    return (said or lines or [""])[-1].removeprefix("clusterjobs: ")[:500]
