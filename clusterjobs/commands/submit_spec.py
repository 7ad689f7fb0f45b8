"""Writes the files of a spec and submits them, without a word on standard output.

It is what `submit` and `run` have in common; it must not know their options.
"""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable

import click

from clusterjobs.commands.pipeline import Project
from clusterjobs.commands.show import printable, show_problems
from clusterjobs.commands.submit_sweep import (
    SubmitOptions,
    SweepJob,
    SweepSubmission,
    submit_sweep,
)
from clusterjobs.commands.sweep_project import SweepProject
from clusterjobs.commands.write import write_outputs
from clusterjobs.slurm.submit import Submitted
from clusterjobs.slurm.submit import submit as hand_to_sbatch


def submit_job(
    project: Project, output: pathlib.Path, force: bool, sbatch_options: tuple[str, ...]
) -> Submitted:
    """Submit a spec without a sweep. Raises InputError."""
    script = _write(project, output, force)["job.sh"]
    job = hand_to_sbatch(script, sbatch_options, os.environ)
    _say_all(job.notes)
    return job


def submit_points(
    project: SweepProject,
    output: pathlib.Path,
    force: bool,
    options: SubmitOptions,
    submitted: Callable[[SweepJob], None] = lambda _: None,
) -> SweepSubmission:
    """Submit the points of a sweep that have no result. `submitted`: called for each job."""
    _write(project, output, force)

    def note(job: SweepJob) -> None:
        _say_all(job.notes)
        submitted(job)

    return submit_sweep(project, options, lambda said: _say_all([said]), note)


def _write(project: Project | SweepProject, output: pathlib.Path, force: bool) -> dict[str, str]:
    """Write the files, and show the warnings."""
    outputs = project.outputs()
    show_problems(project.warnings)
    if added := project.fitted.notice(output):
        click.echo(added, err=True)
    write_outputs(output, outputs, force)
    return outputs


def _say_all(messages: Iterable[str]) -> None:
    for message in messages:
        click.echo(printable(message), err=True)
