"""The jobs of a spec: pending ones, and those with a folder `<logs>/<job id>`, made by job.sh."""

import os
import pathlib
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

from clusterjobs.errors import InputError, one_problem
from clusterjobs.plugins import local_cluster, on_this_machine
from clusterjobs.runs.jobs.folders import JobFolder, Submission, job_folders, read_submissions
from clusterjobs.runs.jobs.identity import is_of_folder, token_of, with_ids
from clusterjobs.runs.jobs.logs_folder import logs_folder
from clusterjobs.runs.jobs.records import OF_SLURM
from clusterjobs.runs.jobs.unstarted import (
    DEFAULT_OUTPUT,
    Unstarted,
    cancelled_before_start,
    jobs_with_unmet_needs,
    unstarted_jobs,
)
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.slurm.queue import Queued, by_id
from clusterjobs.spec.experiment import Experiment


class SpecJobs(NamedTuple):
    """Job id -> folder of each job of `spec`, the newest last; a pending job may have none yet.

    `spec` is the name of its file, `name` its own. `others`: the number of other specs' jobs below
    `logs`. `unstarted`: those of `folders` that ended before they had one. `submissions`: what
    `submit` has recorded of the spec. `queued` and `ended`: those of `folders` that Slurm knows.
    `knows_queue`: whether Slurm has said which jobs there are.
    """

    spec: str
    name: str
    logs: pathlib.Path
    folders: dict[str, pathlib.Path]
    others: int
    unstarted: dict[str, Unstarted]
    submissions: tuple[Submission, ...] = ()
    queued: Mapping[str, Queued] = {}
    ended: Mapping[str, Queued] = {}
    knows_queue: bool = True

    def owns(self, job: Queued) -> bool:
        """Whether it is a job of the spec."""
        folder = self.folders.get(job.job_id)
        return _is_named(job, self.name, self.submissions) or (
            folder is not None and is_of_folder(job, folder, self.submissions)
        )

    def end_of(self, job_id: str) -> str:
        """Why a job ended without a record: by `cancel`, or as Slurm says; "" if unknown."""
        if any(str(one.job_id) == job_id and "" in one.cancelled for one in self.submissions):
            return "cancelled"
        job = self.ended.get(job_id)
        return OF_SLURM.get(job.state, "") if job else ""

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
        queue = "is in the queue, and none " if self.knows_queue else ""
        unknown = "" if self.knows_queue else "; what is in the queue is not known"
        return one_problem(
            f"no job of {self.spec} {queue}has written to {self.logs}{unknown}",
            hint=f"a job writes to `logs` of its spec once it has started{others}{lab}",
        )


_LAB_HINT = '; to see those of a lab: eval "$(clusterjobs lab env)"'


def spec_jobs(
    spec: pathlib.Path, jobs: Sequence[Queued] | None, settings: Sequence[str] = ()
) -> SpecJobs:
    """The jobs whose plan.json names the spec, and this user's pending jobs of the same name.

    `jobs`: what Slurm knows; None without Slurm.
    """
    return jobs_of_spec(spec.name, SpecFiles(spec).load(settings).spec, jobs)


def jobs_of_spec(
    file: str,
    spec: Experiment,
    jobs: Sequence[Queued] | None,
    folders_below: Callable[[pathlib.Path], Sequence[JobFolder]] = job_folders,
) -> SpecJobs:
    """Find the jobs of a spec that is loaded. `file`: its name."""
    logs = logs_folder(spec.logs.path)
    submissions = with_ids(submissions_of(file, spec.name, logs), jobs or ())
    folders = folders_below(logs)
    own = {one.job_id: one.path for one in folders if one.is_of(spec.name, file)}
    others = len(folders) - len(own)
    planned = {one.job_id: one.path for one in folders if one.plan}
    queued: dict[str, Queued] = {}
    for job_id, job in by_id(job for job in jobs or () if not job.has_ended).items():
        if job_id in planned and is_of_folder(job, planned[job_id], submissions):
            is_ours = job_id in own
        else:  # a running job without a folder here has one in another `logs`
            may_have_none = job.state != "RUNNING" or (logs / job_id).is_dir()
            is_ours = may_have_none and _is_named(job, spec.name, submissions)
        if is_ours:
            queued[job_id] = job
            own.setdefault(job_id, logs / job_id)
    ended = by_id(job for job in jobs or () if job.has_ended)
    named = {key: one for key, one in ended.items() if _is_named(one, spec.name, submissions)}
    unstarted = _unstarted(spec, submissions, {**planned, **queued, **own}, named, jobs)
    own |= {job_id: logs / job_id for job_id in unstarted}
    ordered = {job_id: own[job_id] for job_id in sorted(own, key=_numbers)}
    of_folders = {
        key: job
        for key, job in ended.items()
        if key in own and (key in unstarted or is_of_folder(job, own[key], submissions))
    }
    return SpecJobs(
        *(file, spec.name, logs, ordered, others, unstarted, submissions, queued, of_folders),
        knows_queue=jobs is not None,
    )


def _is_named(job: Queued, name: str, submissions: Sequence[Submission]) -> bool:
    """Whether a job that may have no folder yet is one of the spec.

    One that `submit` has submitted is in its record; of plain sbatch, only the name is known.
    """
    if job.user_id != os.getuid():
        return False
    if token := token_of(job):
        return any(one.token == token for one in submissions)
    return job.name == name


def _unstarted(
    spec: Experiment,
    submissions: Sequence[Submission],
    known: Collection[str],
    ended: Mapping[str, Queued],
    jobs: Sequence[Queued] | None,
) -> dict[str, Unstarted]:
    """The jobs of the spec that ended before they had a folder; none of those that are `known`."""
    output = spec.sbatch.get("output")
    pattern = output if isinstance(output, str) else DEFAULT_OUTPUT
    states = {job_id: job.state for job_id, job in ended.items()}
    in_slurm = {*known, *(job.job_id for job in jobs or () if not job.has_ended)}
    found = unstarted_jobs(spec.name, pattern, states, in_slurm, on_this_machine)
    if jobs is None:
        return found
    found |= cancelled_before_start(submissions, in_slurm)
    return found | jobs_with_unmet_needs(submissions, states, in_slurm)


def submissions_of(file: str, name: str, logs: pathlib.Path) -> tuple[Submission, ...]:
    """What `submit` has recorded of a spec without a sweep; others may share its `logs`."""
    return tuple(
        one for one in read_submissions(logs) if one.spec == file and name in one.points.values()
    )


def _numbers(job_id: str) -> tuple[int, ...]:
    """The numbers of a job id, for sorting: `123`, `123_4`."""
    return tuple(map(int, job_id.split("_")))
