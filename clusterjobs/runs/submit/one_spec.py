"""Writes the files of a run and submits them, without output on stdout."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from typing import TYPE_CHECKING

from clusterjobs.console.show import TERMINAL, Messages
from clusterjobs.runs.run import Run
from clusterjobs.runs.submit.lock import make_logs_folder, submit_lock
from clusterjobs.runs.submit.points import (
    Chosen,
    RunJob,
    RunSubmission,
    SubmitOptions,
    chosen_now,
    submit_plain,
    submit_sweep,
)
from clusterjobs.runs.submit.sbatch import fitted_to_slurm
from clusterjobs.runs.submit.sbatch import submit as hand_to_sbatch
from clusterjobs.runs.write import write_outputs

if TYPE_CHECKING:
    from clusterjobs.runs.submit.needs import Needs


def submit_run(
    run: Run,
    output: pathlib.Path,
    force: bool,
    options: SubmitOptions,
    submitted: Callable[[RunJob], None] = lambda _: None,
    needs: Needs | None = None,
    messages: Messages = TERMINAL,
) -> RunSubmission:
    """Write the files and submit the job, after what it needs; of a sweep, the points that have no
    result.

    `submitted`: called for each job. Raises InputError.
    """
    if run.sweep is None:
        return _submit_job(
            run, _write(run, output, force, messages), options, submitted, needs, messages
        )
    run = fitted_to_slurm(run)
    _write(run, output, force, messages)
    if needs:
        now = chosen_now(run, options)
        if not now.names:  # a point that fails from now on has nothing to wait for yet
            return RunSubmission(now, ())
        options = options._replace(waits=needs.submit())

    def note(job: RunJob) -> None:
        for one in job.notes:
            messages.say(one)
        submitted(job)

    with needs.named_if_it_fails() if needs else nullcontext():
        return submit_sweep(run, options, messages.say, note)


def _submit_job(
    run: Run,
    outputs: Mapping[str, str],
    options: SubmitOptions,
    submitted: Callable[[RunJob], None],
    needs: Needs | None,
    messages: Messages,
) -> RunSubmission:
    script, say = outputs["job.sh"], messages.say
    if needs:
        (waits,) = needs.submit()
        with (
            needs.named_if_it_fails(),
            submit_lock(make_logs_folder(run.spec), say) as record,
        ):
            job = submit_plain(run, script, waits, record, say, options.sbatch)
    else:
        job = hand_to_sbatch(script, options.sbatch, os.environ)
    for one in job.notes:
        say(one)
    done = RunJob(job.job_id, job.cluster, "job.sh", "", {"": run.name}, job.notes)
    submitted(done)
    return RunSubmission(Chosen({}, (run.name,), {}), (done,))


def _write(run: Run, output: pathlib.Path, force: bool, messages: Messages) -> dict[str, str]:
    """Write the files, and show the warnings."""
    outputs = run.outputs()
    messages.show(run.warnings)
    for line in run.fitted.notice(output).splitlines():
        messages.say(line)
    write_outputs(output, outputs, force)
    return outputs
