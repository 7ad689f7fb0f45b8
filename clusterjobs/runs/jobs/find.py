"""The jobs of a spec: pending ones, and those with a folder `<logs>/<job id>`, made by job.sh."""

from __future__ import annotations

import os
import pathlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.errors import InputError, one_problem
from clusterjobs.plugins import local_cluster, on_this_machine
from clusterjobs.runs.jobs.folders import JobFolder, Submission, job_folders, read_submissions
from clusterjobs.runs.jobs.unstarted import (
    DEFAULT_OUTPUT,
    Unstarted,
    jobs_with_unmet_needs,
    unstarted_jobs,
)
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.slurm.queue import Queued, ended_jobs
from clusterjobs.spec.experiment import Experiment
from clusterjobs.text import Value, show

_VARIABLE = re.compile(r"\$\{(\w+)\}")


class SpecJobs(NamedTuple):
    """Job id -> folder of each job of `spec`, the newest last; a pending job may have none yet.

    `others` is the number of other specs' jobs below `logs`. `unstarted`: those of `folders` that
    ended before they had one. `submissions`: what `submit` has recorded of the spec.
    """

    spec: str
    logs: pathlib.Path
    folders: dict[str, pathlib.Path]
    others: int
    unstarted: dict[str, Unstarted]
    submissions: tuple[Submission, ...] = ()

    def chosen(self, job_id: str | None) -> str:
        """`job_id`, or the newest job's. Raises InputError if there is no such job."""
        if not self.folders:
            raise self._nothing()
        wanted = job_id or list(self.folders)[-1]
        if wanted not in self.folders:
            known = ", ".join(list(self.folders)[-8:])
            raise one_problem(f"no job {wanted} of this spec", hint=f"its jobs: {known}")
        return wanted

    def _nothing(self) -> InputError:
        others = f"; the jobs of other specs there: {self.others}" if self.others else ""
        lab = "" if local_cluster() else _LAB_HINT
        return one_problem(
            f"no job of {self.spec} is in the queue, and none has written to {self.logs}",
            hint=f"a job writes to `logs` of its spec once it has started{others}{lab}",
        )


_LAB_HINT = '; to see those of a lab: eval "$(clusterjobs lab env)"'


def spec_jobs(spec: pathlib.Path, queued: Mapping[str, Queued] | None) -> SpecJobs:
    """The jobs whose plan.json names the spec, and this user's pending jobs of the same name."""
    loaded = SpecFiles(spec).load()
    ended = {} if queued is None else ended_jobs(loaded.spec.name)
    return jobs_of_spec(spec.name, loaded.spec, queued, ended)


def jobs_of_spec(
    file: str,
    spec: Experiment,
    queued: Mapping[str, Queued] | None,
    ended: Mapping[str, str],
    folders_below: Callable[[pathlib.Path], Sequence[JobFolder]] = job_folders,
) -> SpecJobs:
    """The same for a spec that is loaded. `file`: its name; `ended`: id -> state."""
    logs = logs_folder(spec.logs.path)
    folders = folders_below(logs)
    own = {one.job_id: one.path for one in folders if one.is_of(spec.name, file)}
    others = len(folders) - len(own)
    planned = {one.job_id for one in folders if one.plan}
    for job_id, job in (queued or {}).items():
        is_ours = job.name == spec.name and job.user_id == os.getuid()
        is_here = job.state != "RUNNING" or (logs / job_id).is_dir()  # else in another `logs`
        if is_ours and is_here and job_id not in planned:
            own[job_id] = logs / job_id
    output = spec.sbatch.get("output")
    pattern = output if isinstance(output, str) else DEFAULT_OUTPUT
    known = {*own, *planned, *(queued or {})}
    unstarted = unstarted_jobs(spec.name, pattern, ended, known, on_this_machine)
    submitted = submissions_of(file, spec.name, logs) if queued is not None else ()
    unstarted |= jobs_with_unmet_needs(submitted, ended, known)
    own |= {job_id: logs / job_id for job_id in unstarted}
    ordered = {job_id: own[job_id] for job_id in sorted(own, key=_numbers)}
    return SpecJobs(file, logs, ordered, others, unstarted, submitted)


def submissions_of(file: str, name: str, logs: pathlib.Path) -> tuple[Submission, ...]:
    """What `submit` has recorded of a spec without a sweep; others may share its `logs`."""
    return tuple(
        one for one in read_submissions(logs) if one.spec == file and name in one.points.values()
    )


def _numbers(job_id: str) -> tuple[int, ...]:
    """For sorting: `123`, `123_4`."""
    return tuple(map(int, job_id.split("_")))


def logs_folder(path: Value) -> pathlib.Path:
    """The folder of `logs` on this machine. Raises InputError if a variable in it is unset."""
    written = show(path)
    missing = [name for name in _VARIABLE.findall(written) if name not in os.environ]
    if missing:
        raise one_problem(
            f"logs is {written}, and {missing[0]} is not set here",
            hint=f"{missing[0]}=... clusterjobs ...",
        )
    return on_this_machine(_VARIABLE.sub(lambda match: os.environ[match[1]], written))
