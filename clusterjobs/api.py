"""The Python API: load a spec, look at its plan, render it, submit it, and wait for its job.

`import clusterjobs` gives its names. See docs/python.md.
"""

from __future__ import annotations

import json
import os
import pathlib
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from clusterjobs.errors import InputError, Problem, counted, one_problem
from clusterjobs.runs import load as loading
from clusterjobs.runs.run import Run as PlannedRun
from clusterjobs.runs.write import write_outputs
from clusterjobs.sections.context import PointPlan as Point
from clusterjobs.sections.plan import Plan
from clusterjobs.sites.folders import SiteFolders, is_folder, trusted

if TYPE_CHECKING:
    from clusterjobs.runs.job import Job

__all__ = ["InputError", "Plan", "Point", "Problem", "Run", "load"]


def load(
    spec: str | os.PathLike[str],
    *,
    set: Mapping[str, Any] | Iterable[str] = (),  # noqa: A002  # as the option --set
    site: str | os.PathLike[str] | None = None,
) -> Run:
    """Read a spec with the files that it names, and plan each of its points.

    `set`: values to change, by their dotted keys (`{"nodes": 4, "args.lr": 3e-4}`), or as `--set`
    takes them (`["nodes=4"]`). `site`: a site folder to use instead of those that are found.
    Nothing is written. Raises InputError with all problems of the spec.
    """
    if isinstance(set, Mapping):
        settings = [*map(_setting, set, set.values())]
    else:
        settings = [set] if isinstance(set, str) else [*set]
    folders = None if site is None else _site(pathlib.Path(site))
    run = loading.load(pathlib.Path(spec), settings, site=folders)
    return Run(**vars(run))


def _setting(key: str, value: Any) -> str:
    """The setting as `--set` takes it: JSON is YAML, and keeps a text such as "1e3" a text."""
    try:
        return f"{key}={json.dumps(value, default=os.fspath)}"
    except (TypeError, ValueError) as error:
        hint = "set a number, a text, true, false, None, a list or a mapping of these"
        raise one_problem(f"cannot be set: {error}", path=key, hint=hint) from None


def _site(folder: pathlib.Path) -> SiteFolders:
    if not is_folder(folder):
        raise one_problem(f"{folder} is no site folder", hint="name a folder with a site.yaml")
    return SiteFolders((trusted(folder),))


class Run(PlannedRun):
    """One job, or the jobs of a sweep, planned. Made by `load`.

    `name` of the job or the sweep. `points`: those of the sweep; a job without a sweep has one.
    Each has `name`, `index`, `values` (the swept keys) and `plan`. `plan` is that of the first one;
    `plan.derived` has each derived value with its `name`, `value` and `reason`.
    """

    def __repr__(self) -> str:
        return f"<clusterjobs.Run {self.name}: {counted(len(self.points), 'point')}>"

    @property
    def problems(self) -> tuple[Problem, ...]:
        """All warnings and notes. Raises InputError if the cluster cannot run the job."""
        return (*self.warnings, *self.notes)

    def render(
        self, folder: str | os.PathLike[str] = "generated", *, force: bool = False
    ) -> dict[str, str]:
        """Write the job script and the config files, and return what has changed.

        That is the name of each file that was written or removed -> new, changed or stale (no
        longer needed, so removed). Raises InputError, before anything is written, for files that
        clusterjobs did not write or that were edited since, unless `force`.
        """
        return write_outputs(pathlib.Path(folder), self.outputs(), force)

    def submit(
        self,
        folder: str | os.PathLike[str] = "generated",
        *,
        points: Sequence[str] = (),
        failed: bool = False,
        completed: bool = False,
        needs: bool = True,
        yes: bool = False,
        force: bool = False,
        sbatch: Sequence[str] = (),
    ) -> Job:
        """Write the files to `folder` and submit the job with sbatch, after what it `needs`.

        Of a sweep, the points are submitted that have no result; never one that is in the queue.
        The Job covers all of its points. `points`: only those that match one of these patterns, as
        `3,7-9`, a name, or `*lr=3e-4*`. `failed`: only those that failed or are lost. `completed`:
        also those with a result. `needs`: submit what is missing of the specs that it needs. `yes`:
        submit more than 1,000 points. `sbatch`: further options of sbatch.

        Messages are logged (`logging`, level INFO). Raises InputError if the job cannot be
        submitted.
        """
        import logging  # a program that only renders needs none of these

        from clusterjobs.console import Messages
        from clusterjobs.runs.job import Job
        from clusterjobs.runs.submit.needs import needs_of
        from clusterjobs.runs.submit.one_spec import submit_run
        from clusterjobs.runs.submit.points import SubmitOptions, matching

        say = logging.getLogger("clusterjobs").info

        def show(problems: Iterable[Problem]) -> None:
            for one in problems:
                say(f"{one.path}: {one.what}" if one.path else one.what)

        messages = Messages(say, show)
        options = SubmitOptions(tuple(points), completed, failed, yes, tuple(sbatch))
        output = pathlib.Path(folder)
        if not self.sweep and (points or failed or completed):
            raise one_problem(f"points, failed, completed: {self.file} has no sweep")
        names = matching(self, options) or tuple(self.indexes)
        others = needs_of(self, output, force, options.sbatch, messages) if needs else None
        done = submit_run(self, output, force, options, needs=others, messages=messages)
        ids = [str(job.job_id) for job in done.jobs if job.job_id is not None]
        if done.jobs and not ids:
            raise one_problem("sbatch accepted the job but printed no job id")
        return Job(self, ids, names, say)
