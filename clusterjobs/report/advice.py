"""What a reader must know to trust a run's numbers, and what would make the next run better.

It knows a finished run and what is known of its job; every sentence names its number.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from clusterjobs.counted import counted
from clusterjobs.report.job import Job
from clusterjobs.report.numbers import duration, integer, number, share
from clusterjobs.report.run import LostTime, Run

_WORTH = 0.05  # of the paid time: less is not worth a change
_ROOM = 0.5  # of the memory: less leaves room for twice the micro batch

# What to do about each kind of lost time.
_REMEDIES: dict[LostTime, str] = {
    "data_wait": "were spent waiting for data: stage it on the nodes' own disks, or add workers to "
    "the data loader",
    "saving": "went to saving checkpoints: save less often, or in the background",
    "validation": "went to validation: validate less often, or on fewer batches",
    "repeated": "went to steps that were done again after a restart: save more often",
    "stalled": "passed in attempts that stalled: a lower restarts.stall_seconds ends them earlier",
    "staging": "went to copying data: keep it on a shared file system, or on the nodes",
    "preflight": "went to the preflight: leave out slow checks",
    "starting": "of the first attempt passed outside of steps: start of the program, compilation, "
    "its end",
    "restart": "of later attempts passed outside of steps: fewer restarts or a faster start help",
    "slow": "went to steps much slower than usual: compare the ranks and nodes",
}


def notes_of(run: Run) -> tuple[str, ...]:
    """Sentences on how far to trust the numbers."""
    return tuple(_notes(run))


def _notes(run: Run) -> Iterator[str]:
    unknown = [one.number for one in run.attempts if one.seconds is None]
    if run.windows and 0 < len(unknown) < len(run.attempts):
        names = ", ".join(map(str, unknown))
        whose = "attempt" if len(unknown) == 1 else "attempts"
        yield (
            f"Nothing recorded how long {whose} {names} lasted: only the time of the steps counts."
        )
    if run.replaced and run.replaced[0].step <= run.windows[0].step:
        yield (
            "The steps start again from the beginning, which counts as a restart without a "
            "checkpoint. If the log holds two runs, report each from a file of its own; if it "
            "counts the steps of each epoch, print the epoch in the same line."
        )
    if run.efficiency and max(run.efficiency.mfu or 0, run.efficiency.hfu or 0) > 1:
        yield (
            "An efficiency above 100 % is impossible: the model, batch or GPU of the spec is not "
            "that of the run."
        )
    has_times = any("seconds" in one.values for one in run.windows)
    if run.rates and not has_times and len(unknown) < len(run.attempts):
        yield (
            "The log has no time of a step, so the goodput is unknown: print it, too, or name "
            "a spec with `batch`."
        )
    yield from _loss_notes(run)
    done = sum(one.steps or 0 for one in run.windows)
    if run.skipped_steps and run.skipped_steps >= done:
        yield (
            "Every step was skipped: the gradients were infinite at each loss scale, so nothing "
            "was trained."
        )
    elif run.skipped_steps:
        yield (
            f"{counted(run.skipped_steps, 'step')} changed no weights: their gradients were "
            "infinite at that loss scale, which is usual for the first steps in fp16."
        )
    if run.steady_from is not None and run.rates:
        yield (
            f"Speeds are of the steady state, after step {integer(run.steady_from)}, without the "
            "start of each attempt and without lines much slower than usual."
        )


def _loss_notes(run: Run) -> Iterator[str]:
    losses = [one for one in run.windows if "loss" in one.values]
    for what, is_so in (("not a number", math.isnan), ("infinite", math.isinf)):
        if found := [one for one in losses if is_so(one.values["loss"])]:
            lines = sum(one.lines for one in found)
            when = "at" if found[0].lines == 1 else "at or before"
            yield (
                f"The loss is {what} in {counted(lines, 'line')} of the log, first {when} step "
                f"{integer(found[0].step)}."
            )


def advice_of(run: Run, job: Job) -> tuple[str, ...]:
    """Sentences on what to change, the largest loss first."""
    return (*_about_time(run), *_about_memory(run, job))


def _about_time(run: Run) -> Iterator[str]:
    if not run.paid_seconds or run.goodput is None:
        return
    is_paid = any(one.seconds is not None for one in run.attempts)
    of = "of the paid time" if is_paid else "of the time"
    for kind, seconds in sorted(run.lost_seconds.items(), key=lambda one: -one[1]):
        part = seconds / run.paid_seconds
        if kind in _REMEDIES and part >= _WORTH:
            yield f"{duration(seconds)} ({share(part)} {of}) {_REMEDIES[kind]}."


def _about_memory(run: Run, job: Job) -> Iterator[str]:
    if job.gpu is None or run.peak_memory_gib is None:
        return
    used = run.peak_memory_gib / job.gpu.memory_gib
    if used >= _ROOM:
        return
    peak, size = number(run.peak_memory_gib), number(job.gpu.memory_gib)
    text = f"{peak} of {size} GiB of GPU memory are used"
    if job.layout and job.layout.recompute != "none":
        yield f"{text}: try without recomputation, or a larger micro batch."
    else:
        yield f"{text}: try a larger micro batch."
