"""Writes the files of a spec and submits them, without a word on standard output.

It is what `submit` and `run` have in common; it must not know their options.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import nullcontext
from typing import Any

import click

from clusterjobs.commands.pipeline import Project
from clusterjobs.commands.show import printable, show_problems
from clusterjobs.commands.submit_needs import NeedRow, Needs
from clusterjobs.commands.submit_plain import locked_record, submit_recorded
from clusterjobs.commands.submit_sweep import (
    SubmitOptions,
    SweepJob,
    SweepSubmission,
    chosen_now,
    submit_sweep,
)
from clusterjobs.commands.sweep_project import SweepProject
from clusterjobs.commands.write import write_outputs
from clusterjobs.errors import one_problem
from clusterjobs.slurm.submit import Submitted
from clusterjobs.slurm.submit import submit as hand_to_sbatch


def _ignore(_: Any) -> None: ...


def say(message: str) -> None:
    """Print a message to standard error."""
    click.echo(printable(message), err=True)


def needs_of(
    project: Project | SweepProject,
    output: pathlib.Path,
    force: bool,
    sbatch_options: tuple[str, ...],
) -> Needs | None:
    """What has to be submitted first; None if the spec needs nothing. Raises InputError."""
    if project.needs is None:
        return None
    if any(one.startswith(("--dependency", "-d")) for one in sbatch_options):
        raise one_problem(
            f"{sbatch_options[0]}: the dependencies of the job come from its needs",
            hint="write it as needs: [{job: 4711}], or submit with --no-needs",
        )
    project.outputs()  # what is wrong with the spec itself is known before anything is submitted
    return Needs(project.needs, output, force, say)


def submit_job(
    project: Project,
    output: pathlib.Path,
    force: bool,
    sbatch_options: tuple[str, ...],
    needs: Needs | None = None,
    needed: Callable[[Sequence[NeedRow]], None] = _ignore,
) -> Submitted:
    """Submit a spec without a sweep. Raises InputError.

    `needs` are submitted first; `needed` is called when they are.
    """
    script = _write(project, output, force)["job.sh"]
    if needs:
        (waits,) = needs.submit()
        needed(needs.rows)
        with needs.named_if_it_fails(), locked_record(project.spec.experiment, say) as record:
            job = submit_recorded(
                project.plan, project.inputs, script, waits, record, say, sbatch_options
            )
    else:
        job = hand_to_sbatch(script, sbatch_options, os.environ)
    _say_all(job.notes)
    return job


def submit_points(
    project: SweepProject,
    output: pathlib.Path,
    force: bool,
    options: SubmitOptions,
    submitted: Callable[[SweepJob], None] = _ignore,
    needs: Needs | None = None,
    needed: Callable[[Sequence[NeedRow]], None] = _ignore,
) -> SweepSubmission:
    """Submit the points of a sweep that have no result. Raises InputError.

    `submitted` is called for each job. The rest as of `submit_job`.
    """
    _write(project, output, force)
    if needs and chosen_now(project, options).names:
        options = options._replace(waits=needs.submit())
        needed(needs.rows)

    def note(job: SweepJob) -> None:
        _say_all(job.notes)
        submitted(job)

    with needs.named_if_it_fails() if needs else nullcontext():
        return submit_sweep(project, options, say, note)


def _write(project: Project | SweepProject, output: pathlib.Path, force: bool) -> dict[str, str]:
    """Write the files, and show the warnings."""
    outputs = project.outputs()
    show_problems(project.warnings)
    if added := project.fitted.notice(output):
        say(added)
    write_outputs(output, outputs, force)
    return outputs


def _say_all(messages: Iterable[str]) -> None:
    for message in messages:
        say(message)
