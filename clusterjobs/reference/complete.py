"""What completes a word on the command line: keys, clusters, points of a sweep, ids of jobs.

A shell shows nothing of an error, so whatever cannot be read completes nothing.
"""

import contextlib
import os
import pathlib
from collections.abc import Iterator

import click
from click.shell_completion import CompletionItem

from clusterjobs.clusters.source import cluster_names
from clusterjobs.errors import InputError
from clusterjobs.reference.keys import Documented, all_keys
from clusterjobs.runs.load import load
from clusterjobs.sites.folders import find_site_folders
from clusterjobs.slurm.queue import known_jobs

_MOST = 500  # points that are offered


def typed_path(one: Documented) -> str:
    """The path without `[]` and NAME, as people type it: `data.source`, `roles.command`."""
    return one.path.replace("[]", "").replace(".NAME", "")


def completed_keys(_context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
    """Keys of a spec."""
    return [path for path in map(typed_path, all_keys()) if path.startswith(typed)]


def completed_settings(_context: click.Context, _option: click.Parameter, typed: str) -> list[str]:
    """`--set KEY=`; the value is the user's."""
    paths = [typed_path(one) for one in all_keys() if "[]" not in one.path]
    return [f"{path}=" for path in paths if f"{path}=".startswith(typed)]


def completed_clusters(
    _context: click.Context, _option: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Names of clusters, and files."""
    known = cluster_names(find_site_folders().cluster_files)
    names = [CompletionItem(name) for name in known if name.startswith(typed)]
    return names or [CompletionItem(typed, type="file")]


def completed_jobs(
    context: click.Context, _option: click.Parameter, typed: str
) -> list[CompletionItem]:
    """Points of the sweep that was named before, ids of the user's jobs, or else files."""
    found = [one for one in (*_points(context), *_job_ids()) if one.startswith(typed)][:_MOST]
    return [CompletionItem(one) for one in found] or [CompletionItem(typed, type="file")]


def _points(context: click.Context) -> Iterator[str]:
    spec = next((one for one in _given(context) if one.endswith((".yaml", ".yml"))), None)
    if spec is None:
        return
    with contextlib.suppress(InputError, OSError):
        run = load(pathlib.Path(spec))
        if len(run.points) > 1:
            yield from (point.name for point in run.points)


def _given(context: click.Context) -> Iterator[str]:
    for value in context.params.values():
        yield from map(str, value if isinstance(value, tuple) else [value])


def _job_ids() -> Iterator[str]:
    with contextlib.suppress(InputError, OSError):
        for job in known_jobs() or ():
            if job.user_id == os.getuid():
                yield job.shown_id
