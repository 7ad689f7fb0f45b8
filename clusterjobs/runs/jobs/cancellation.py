"""Cancels jobs, and records it beside their submissions.

Slurm forgets a cancelled job minutes after its end. Without a record, a point whose job never
started, or was killed before it could write, would be lost, and `submit --failed` would run it.
"""

import os
import pathlib
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import BinaryIO, cast

from clusterjobs.console import say_on_stderr
from clusterjobs.errors import InputError
from clusterjobs.runs.find_specs import specs_of
from clusterjobs.runs.jobs.folders import append_cancellation, read_submissions, record_files
from clusterjobs.runs.jobs.identity import token_of
from clusterjobs.runs.jobs.logs_folder import logs_folder, sweep_folder
from clusterjobs.runs.spec_files import SpecFiles
from clusterjobs.slurm.queue import Queued, cancel


def cancel_recorded(
    jobs: Mapping[str, Sequence[Queued]], folders: Iterable[pathlib.Path]
) -> dict[str, str]:
    """Cancel jobs, and return scancel's message for each that it could not cancel.

    `jobs`: the id, as scancel takes it, and its tasks. `folders`: those with the records of the
    specs that were named. Raises InputError without scancel.
    """
    records = _records({token_of(job) for tasks in jobs.values() for job in tasks} - {""}, folders)
    if missing := [job for tasks in jobs.values() for job in tasks if token_of(job) not in records]:
        records |= _records({token_of(job) for job in missing} - {""}, _folders_of(missing))
    _write(records, (job for tasks in jobs.values() for job in tasks), True)
    refused = cancel(list(jobs)) if jobs else {}
    _write(records, (job for job_id in refused for job in jobs[job_id]), False)
    return refused


def _records(tokens: Collection[str], folders: Iterable[pathlib.Path]) -> dict[str, pathlib.Path]:
    """Token of a submission -> the folder of its record."""
    return {
        one.token: folder
        for folder in dict.fromkeys(folders)
        for one in read_submissions(folder)
        if one.token in tokens
    }


def _folders_of(jobs: Iterable[Queued]) -> Iterator[pathlib.Path]:
    """Where the records of jobs may be whose specs were not named: by the specs of their names in
    the folder in which they were submitted."""
    for file in specs_of(job for job in jobs if job.user_id == os.getuid()):
        try:
            spec = SpecFiles(file).load().spec
            yield sweep_folder(spec) if spec.sweep else logs_folder(spec.logs.path)
        except InputError:
            continue  # a spec that is wrong submits nothing


def _write(records: Mapping[str, pathlib.Path], jobs: Iterable[Queued], is_cancelled: bool) -> None:
    tasks: dict[pathlib.Path, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for job in jobs:
        if folder := records.get(token_of(job)):
            tasks[folder][token_of(job)].append(job.array_index)
    for folder, cancelled in tasks.items():
        why = ""
        for file in record_files(folder):  # the first may be another user's
            try:
                with _opened(file) as record:
                    append_cancellation(record, cancelled, is_cancelled)
                why = ""
                break
            except OSError as error:
                why = why or f"{file}: {error.strerror}"
        if why:
            say_on_stderr(f"the cancellation is not recorded: {why}")


def _opened(file: pathlib.Path) -> BinaryIO:
    flags = os.O_RDWR | os.O_APPEND | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
    return cast(BinaryIO, open(file, "a+b", opener=lambda name, _: os.open(name, flags)))
