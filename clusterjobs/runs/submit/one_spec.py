"""Writes the files of a spec and submits them, without output on stdout.

It is what `submit` and `run` have in common; it must not know their options.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import TYPE_CHECKING, BinaryIO

import click

from clusterjobs.console.show import printable, show_problems
from clusterjobs.errors import one_problem
from clusterjobs.runs.pipeline import Project
from clusterjobs.runs.submit.limits import fitted_to_slurm
from clusterjobs.runs.submit.lock import make_logs_folder, submit_lock
from clusterjobs.runs.submit.needed_jobs import WaitsFor
from clusterjobs.runs.submit.points import (
    SubmitOptions,
    SweepJob,
    SweepSubmission,
    chosen_now,
    submit_sweep,
)
from clusterjobs.runs.submit.sbatch import Submitted, new_intent, submit_recorded
from clusterjobs.runs.submit.sbatch import submit as hand_to_sbatch
from clusterjobs.runs.sweep_project import SweepProject
from clusterjobs.runs.write import write_outputs
from clusterjobs.sections.plan import Plan
from clusterjobs.sections.render import Inputs
from clusterjobs.spec.experiment import Experiment

if TYPE_CHECKING:
    from clusterjobs.runs.submit.needs import Needs


def needs_of(
    project: Project | SweepProject,
    output: pathlib.Path,
    force: bool,
    sbatch_options: tuple[str, ...],
) -> Needs | None:
    """The checked needs of the spec; None if it has none. Raises InputError."""
    if project.needs is None:
        return None
    from clusterjobs.runs.submit.needs import Needs  # most specs do not need this

    for option in sbatch_options:
        if option.startswith(("--dependency", "-d")):
            raise one_problem(
                f"{option} cannot be given for a spec that has needs",
                hint="write it as needs: [{job: 4711}], or submit with --no-needs",
            )
    project.outputs()  # what is wrong with the spec itself is known before anything is submitted
    return Needs(project.needs, output, force, _say)


def submit_job(
    project: Project,
    output: pathlib.Path,
    force: bool,
    sbatch_options: tuple[str, ...],
    needs: Needs | None = None,
) -> Submitted:
    """Submit a spec without a sweep, after what it `needs`. Raises InputError."""
    script = _write(project, output, force)["job.sh"]
    if needs:
        job = _submit_after(needs, project, script, sbatch_options)
    else:
        job = hand_to_sbatch(script, sbatch_options, os.environ)
    _say_all(job.notes)
    return job


def _submit_after(
    needs: Needs, project: Project, script: str, sbatch_options: tuple[str, ...]
) -> Submitted:

    (waits,) = needs.submit()
    with needs.named_if_it_fails(), locked_record(project.spec.experiment, _say) as record:
        return submit_plain(
            project.plan, project.inputs, script, waits, record, _say, sbatch_options
        )


def submit_points(
    project: SweepProject,
    output: pathlib.Path,
    force: bool,
    options: SubmitOptions,
    submitted: Callable[[SweepJob], None] = lambda _: None,
    needs: Needs | None = None,
) -> SweepSubmission:
    """Submit the points of a sweep that have no result, after what they need.

    `submitted`: called for each job.
    """
    project = fitted_to_slurm(project)
    _write(project, output, force)
    if needs:
        now = chosen_now(project, options)
        if not now.names:  # a point that fails from now on has nothing to wait for yet
            return SweepSubmission(now, ())
        options = options._replace(waits=needs.submit())

    def note(job: SweepJob) -> None:
        _say_all(job.notes)
        submitted(job)

    with needs.named_if_it_fails() if needs else nullcontext():
        return submit_sweep(project, options, _say, note)


def _write(project: Project | SweepProject, output: pathlib.Path, force: bool) -> dict[str, str]:
    """Write the files, and show the warnings."""
    outputs = project.outputs()
    show_problems(project.warnings)
    if added := project.fitted.notice(output):
        click.echo(added, err=True)
    write_outputs(output, outputs, force)
    return outputs


def _say(message: str) -> None:
    click.echo(printable(message), err=True)


def _say_all(messages: Iterable[str]) -> None:
    for message in messages:
        _say(message)


# ------------------------------------------------------------------ plain
#
# Submits a spec of a pipeline that has no sweep, and records it beside its jobs.


Say = Callable[[str], None]


@contextmanager
def locked_record(experiment: Experiment, say: Say) -> Iterator[BinaryIO]:
    """Hold the lock of `logs`; gives its record of submissions. Raises InputError."""
    with submit_lock(make_logs_folder(experiment), say) as record:
        yield record


def submit_plain(
    plan: Plan,
    inputs: Inputs,
    script: str,
    waits: WaitsFor,
    record: BinaryIO,
    say: Say,
    sbatch: Sequence[str] = (),
) -> Submitted:
    """Submit it with a record. Raises InputError."""
    name = plan.job.name
    intent = new_intent(
        inputs.spec[0],
        array=False,
        points={"": name},
        content={name: inputs.content},
        needs=waits.needs,
    )
    return submit_recorded(script, plan, (*sbatch, *waits.options()), intent, record, say)
