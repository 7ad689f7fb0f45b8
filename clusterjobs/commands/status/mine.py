"""This user's jobs, whatever their specs: those that Slurm knows.

The spec of a job is looked for in the folder in which it was submitted. A job of another spec is
shown with what Slurm says of it.
"""

from __future__ import annotations

import pathlib
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping

from clusterjobs.commands.status.job import JobPlace, job_data
from clusterjobs.commands.status.queue import Queue
from clusterjobs.commands.status.sweep import SweepData
from clusterjobs.commands.status.targets import Finder, Group
from clusterjobs.errors import InputError
from clusterjobs.regular_file import open_regular
from clusterjobs.slurm.queue import Queued, by_id

_NAME = re.compile(r"(?m)^name[ \t]*:[ \t]*(.*?)[ \t]*(?:#.*)?$")
_EXTENDS = re.compile(r"(?m)^extends[ \t]*:")
_MOST_FILES = 1000  # of one folder that are looked at
_MOST_BYTES = 1 << 20


def my_groups(finder: Finder, queue: Queue) -> Iterator[Group]:
    """The jobs of each spec that is found, then the others."""
    ended = by_id(queue.my_ended)
    mine = {**ended, **queue.my_queued}
    shown: set[str] = set()
    for spec in _specs(mine.values()):
        try:
            group = finder.spec(spec)(queue)
        except InputError:
            continue  # its jobs are shown without it
        jobs = tuple(job for job in group.jobs if job["job_id"] in mine.keys() - shown)
        of_sweeps = {job_id for sweep in group.sweeps for job_id in _tasks(sweep, mine)}
        shown |= {job["job_id"] for job in jobs} | of_sweeps
        if jobs or of_sweeps:
            yield group._replace(jobs=jobs)
    others = [
        JobPlace(job_id, None, "", job.name, ended=ended.get(job_id))
        for job_id, job in sorted(mine.items(), key=lambda one: [int(n) for n in one[0].split("_")])
        if job_id not in shown
    ]
    for name in dict.fromkeys(place.name for place in others):
        places = (place for place in others if place.name == name)
        yield Group(f"{name} (no spec found)", tuple(job_data(place, queue) for place in places))


def _tasks(sweep: SweepData, mine: Mapping[str, Queued]) -> set[str]:
    """The ids of those jobs that are tasks of the sweep."""
    arrays = {str(one.job_id) for one in sweep.sweep.submissions}
    newest = {state.job_id for state in sweep.all_states.values()}
    return {job_id for job_id, job in mine.items() if job.array_id in arrays or job_id in newest}


def _specs(jobs: Iterable[Queued]) -> Iterator[pathlib.Path]:
    names: dict[str, set[str]] = defaultdict(set)
    for job in jobs:
        names[job.workdir].add(job.name)
    for folder, wanted in names.items():
        if folder:
            yield from _specs_in(pathlib.Path(folder), wanted)


def _specs_in(folder: pathlib.Path, names: set[str]) -> Iterator[pathlib.Path]:
    """The files of the folder that have one of the names, or may have it from the file that they
    extend: a quick look, before they are loaded."""
    try:
        found = sorted(path for path in folder.iterdir() if path.suffix in (".yaml", ".yml"))
    except OSError:
        return
    for path in found[:_MOST_FILES]:
        try:
            with open_regular(path.resolve()) as file:
                text = file.read(_MOST_BYTES).decode(errors="replace")
        except (OSError, RuntimeError):
            continue
        own = [one.strip("'\"") for one in _NAME.findall(text)]
        if names.intersection(own) or (not own and _EXTENDS.search(text)):
            yield path
