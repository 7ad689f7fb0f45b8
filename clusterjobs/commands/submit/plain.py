"""Submits a spec of a pipeline that has no sweep, and records it beside its jobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO

from clusterjobs.commands.submit.lock import submit_lock
from clusterjobs.commands.submit.record import new_intent, submit_recorded
from clusterjobs.commands.submit.sweep_folder import make_logs_folder
from clusterjobs.jobs.needed_jobs import WaitsFor
from clusterjobs.plan.plan import Plan
from clusterjobs.render.inputs import Inputs
from clusterjobs.slurm.submit import Submitted
from clusterjobs.spec.experiment import Experiment

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
