"""Writes the files of a run and submits them, without output on stdout."""

from __future__ import annotations

import contextlib
import os
import pathlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import TYPE_CHECKING, BinaryIO

from clusterjobs.console import TERMINAL, Messages
from clusterjobs.errors import InputError, one_problem
from clusterjobs.runs.jobs.logs_folder import make_logs_folder
from clusterjobs.runs.run import Run
from clusterjobs.runs.submit.lock import submit_lock
from clusterjobs.runs.submit.needed_jobs import WaitsFor
from clusterjobs.runs.submit.plain import submit_plain, unanswered_request
from clusterjobs.runs.submit.points import (
    Chosen,
    RunJob,
    RunSubmission,
    SubmitOptions,
    chosen_now,
    submit_sweep,
)
from clusterjobs.runs.submit.sbatch import Submitted, fitted_to_slurm, record_submission
from clusterjobs.runs.warnings import missing_where_submitted
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
    run = fitted_to_slurm(run) if run.sweep else run
    outputs = _write(run, output, force, options.sbatch, messages)
    if run.sweep is None:
        return _submit_job(run, outputs["job.sh"], options, submitted, needs, messages)
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
    script: str,
    options: SubmitOptions,
    submitted: Callable[[RunJob], None],
    needs: Needs | None,
    messages: Messages,
) -> RunSubmission:
    say = messages.say
    (waits,) = needs.submit() if needs else (WaitsFor(),)
    with (
        needs.named_if_it_fails() if needs else nullcontext(),
        _record(run, options, say) as record,
    ):
        folder = record and pathlib.Path(record.name).parent
        if folder and record and (earlier := unanswered_request(run, folder)):
            record_submission(record, earlier)
            say(f"job {earlier.job_id} is this job: an earlier submit got no answer from Slurm")
            job = Submitted(earlier.job_id, earlier.cluster)
        else:
            job = submit_plain(run, script, waits, record, say, options.sbatch)
    for one in job.notes:
        say(one)
    done = RunJob(job.job_id, job.cluster, "job.sh", "", {"": run.name}, job.notes)
    submitted(done)
    return RunSubmission(Chosen({}, (run.name,), {}), (done,))


@contextlib.contextmanager
def _record(
    run: Run, options: SubmitOptions, say: Callable[[str], None]
) -> Iterator[BinaryIO | None]:
    """The locked record of the jobs without a sweep; None if there is no place for it here."""
    if any(one.startswith("--test-only") for one in options.sbatch):
        yield None
        return
    try:
        folder = make_logs_folder(run.spec)
        if not os.access(folder, os.W_OK | os.X_OK):
            raise one_problem(f"{folder} may not be written to")
    except InputError as error:
        say(f"the submission is not recorded: {error.problems[0].what}")
        yield None
        return
    with submit_lock(folder, say, own=True) as record:
        yield record


def _write(
    run: Run, output: pathlib.Path, force: bool, options: Sequence[str], messages: Messages
) -> dict[str, str]:
    """Write the files, and show the warnings."""
    outputs = run.outputs()
    messages.show((*run.warnings, *missing_where_submitted(run.plan, run.file, options)))
    for line in run.fitted.notice(output).splitlines():
        messages.say(line)
    write_outputs(output, outputs, force)
    return outputs
