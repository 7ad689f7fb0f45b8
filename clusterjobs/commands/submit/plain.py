"""Submits a spec of a pipeline that has no sweep, and records it beside its jobs.

It knows in which order records are written, so that no crash loses a job or starts it twice.
"""

from __future__ import annotations

import os
import secrets
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from clusterjobs.commands.follow.interrupts import postponed_interrupts
from clusterjobs.commands.submit.lock import submit_lock, user_name
from clusterjobs.commands.submit.record import append_intent, append_job
from clusterjobs.commands.submit.sweep_folder import make_logs_folder
from clusterjobs.jobs.needed_jobs import WaitsFor
from clusterjobs.jobs.submissions import Submission
from clusterjobs.plan.plan import Plan
from clusterjobs.render.inputs import Inputs
from clusterjobs.slurm.submit import Submitted, submit
from clusterjobs.spec.experiment import Experiment

Say = Callable[[str], None]


@contextmanager
def locked_record(experiment: Experiment, say: Say) -> Iterator[BinaryIO]:
    """Hold the lock of `logs`; gives its record of submissions. Raises InputError."""
    with submit_lock(make_logs_folder(experiment), say) as record:
        yield record


def submit_recorded(
    plan: Plan,
    inputs: Inputs,
    script: str,
    waits: WaitsFor,
    record: BinaryIO,
    say: Say,
    sbatch: Sequence[str] = (),
) -> Submitted:
    """Write the intent, call sbatch, and write the job's id."""
    intent = Submission(
        token=secrets.token_hex(8),
        job_id=None,
        user=user_name(),
        time=int(time.time()),
        spec=inputs.spec[0],
        array=False,
        points={"": plan.job.name},
        content={plan.job.name: inputs.content},
        needs=waits.needs,
    )
    said = next((str(one.value) for one in plan.job.directives if one.name == "comment"), "")
    comment = f"--comment={said} {intent.comment}" if said else f"--comment={intent.comment}"
    options = (comment, *sbatch, *waits.options())
    with postponed_interrupts(lambda: say("sbatch is running: stopping after its answer")):
        append_intent(record, intent)
        job = submit(script, options, os.environ, inherited=(record.fileno(),))
        if job.job_id is not None:
            append_job(record, intent.with_job(job.job_id, job.cluster))
    return job
