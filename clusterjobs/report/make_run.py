"""Makes a run of a log and of what else is known of its job."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

from clusterjobs.errors import counted
from clusterjobs.report.attempts import (
    Kept,
    Part,
    added,
    are_timed,
    keep,
    longer_than_their_attempts,
    lost_in_steps,
    lost_outside_steps,
    measured_parts,
    seconds_in_steps,
    split,
    useful_seconds,
)
from clusterjobs.report.damaged import undamaged
from clusterjobs.report.logs.records import Event, Log, Quantity, Window
from clusterjobs.report.plausible import Facts, left_out, plausible, without_steps
from clusterjobs.report.run import (
    AttemptPart,
    Cost,
    Efficiency,
    Job,
    LostTime,
    RecordedAttempt,
    Run,
    with_events,
)
from clusterjobs.report.tables import duration, integer, number, share
from clusterjobs.report.values import Steady, complete, efficiency_of, find_steady, spreads, total

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


def notes_of(run: Run) -> Iterator[str]:
    """Sentences on how far to trust the numbers."""
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
            "checkpoint."
        )
    has_times = any("seconds" in one.values for one in run.windows)
    if run.rates and not has_times and len(unknown) < len(run.attempts):
        yield (
            "The log has no time of a step, so the goodput is unknown: print it, too, or name "
            "a spec with `batch`."
        )
    losses = [one for one in run.windows if "loss" in one.values]
    for what, is_so in (("not a number", math.isnan), ("infinite", math.isinf)):
        if found := [one for one in losses if is_so(one.values["loss"])]:
            lines = sum(one.lines for one in found)
            when = "at" if found[0].lines == 1 else "at or before"
            yield (
                f"The loss is {what} in {counted(lines, 'line')} of the log, first {when} step "
                f"{integer(found[0].step)}."
            )
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


def advice_of(run: Run, job: Job) -> Iterator[str]:
    """Sentences on what to change, the largest loss first."""
    if run.paid_seconds and run.goodput is not None:
        is_paid = any(one.seconds is not None for one in run.attempts)
        of = "of the paid time" if is_paid else "of the time"
        for kind, seconds in sorted(run.lost_seconds.items(), key=lambda one: -one[1]):
            part = seconds / run.paid_seconds
            if kind in _REMEDIES and part >= _WORTH:
                yield f"{duration(seconds)} ({share(part)} {of}) {_REMEDIES[kind]}."
    used, size = run.peak_memory_gib, job.gpu.memory_gib if job.gpu else None
    if used is not None and size and used / size < _ROOM:
        recomputes = job.layout and job.layout.recompute != "none"
        change = "without recomputation, or a larger" if recomputes else "a larger"
        yield (
            f"{number(used)} of {number(size)} GiB of GPU memory are used: try {change} "
            "micro batch."
        )


_RATES: tuple[Quantity, ...] = (
    *("seconds", "samples_per_second", "tokens_per_second", "tokens_per_second_per_gpu"),
    *("forward_seconds", "backward_seconds"),
    *("printed_tflops_per_gpu", "printed_mfu", "printed_hfu"),
)
_UNTIMED = 0.1  # of the steps: with more, the time of all is not known
_FEW = 10  # records, whose last line may be as right as the others
_LONGEST = 1 << 30  # tokens of a sample; a longer one is a mistake of the log


def make_run(log: Log, job: Job) -> Run:
    """The run. Without any step in the log, it has its attempts and no numbers."""
    records, damaged = undamaged(log.records)
    last, unclear = _of_last_run(split(records), job)
    parts, derived, notes = _completed(last, job)
    kept = keep(parts)
    windows = tuple(window for one in kept for window in one.kept)
    steady = find_steady([one.kept for one in kept])
    attempts = _attempts(kept, steady, job)
    nothing = dict.fromkeys(measured_parts(attempts, kept, steady), 0.0)
    lost = added([nothing, *(one.lost_seconds for one in attempts)])
    # The time of all attempts; of one that has no record, the time of its steps.
    seconds = (
        seconds_in_steps(kept, one.number) if one.seconds is None else one.seconds
        for one in attempts
    )
    is_known = any(one.seconds is not None for one in attempts) or (
        steady.seconds is not None and _untimed(windows) <= _UNTIMED
    )
    paid = (sum(seconds) or None) if is_known else None
    useful = useful_seconds(windows, steady)
    contradicted = longer_than_their_attempts(attempts, kept)
    if contradicted:
        useful = None
    rates = dict(spreads(steady.usual, _RATES))
    # The steps that the training is for, as the log says it last.
    said = _lengths(records)
    is_possible = bool(said and said[-1] and windows and said[-1] >= windows[-1].step)
    # Samples of all steps by their time: what the whole training reached.
    timed = [one for one in windows if {"seconds", "samples_per_second"} <= one.values.keys()]
    timed_seconds = total(timed)
    samples = sum(
        one.values["samples_per_second"] * one.values["seconds"] * (one.steps or 0) for one in timed
    )
    run = Run(
        name=job.name,
        framework=job.framework or log.format,
        attempts=attempts,
        steps=windows[-1].step if windows else None,
        total_steps=job.total_steps or (int(said[-1] or 0) if is_possible else None),
        gpus=job.gpus,
        nodes=job.nodes,
        rates=rates,
        no_steady_state=steady.why_not,
        steady_from=steady.from_step,
        mean_samples_per_second=samples / timed_seconds if timed_seconds else None,
        efficiency=None,
        paid_seconds=paid,
        lost_seconds=lost,
        lost_steps=sum(one.lost_steps for one in attempts),
        # At most 1: the script rounds the time of an attempt to seconds.
        goodput=min(1.0, useful / paid) if paid and useful is not None else None,
        cost=_cost(job, paid, useful),
        skipped_steps=int(sum(one.values.get("skipped", 0.0) for one in windows)),
        peak_memory_gib=max(
            (one.values["memory_gib"] for one in windows if "memory_gib" in one.values),
            default=None,
        ),
        windows=windows,
        replaced=tuple(window for one in kept for window in one.repeated),
        derived=derived,
        notes=(
            *job.notes,
            *unclear,
            *notes,
            *left_out(log.odd),
            *damaged,
            *_notes_of_log(log),
            *(
                f"The steps of attempt {attempt} would take longer than the attempt lasted: the "
                "times in the log are not those of every step. The goodput is unknown."
                for attempt in contradicted
            ),
        ),
        job_id=job.job_id,
        point=job.point,
        ranks=job.ranks,
        settings=job.settings,
    )
    run = replace(run, efficiency=_efficiency(run, job))
    if unclear:
        run = replace(run, **without_steps(run))
    run = plausible(run, Facts(job, log.span))
    return replace(run, notes=(*run.notes, *notes_of(run)), advice=tuple(advice_of(run, job)))


def _untimed(windows: Sequence[Window]) -> float:
    """The share of the steps whose time the log does not say, behind the first line."""
    done = [(one.steps or 0, "seconds" in one.values) for one in windows[1:]]
    return sum(steps for steps, is_timed in done if not is_timed) / (sum(n for n, _ in done) or 1)


def _lengths(records: Sequence[Window | Event]) -> list[float | None]:
    """The lengths of the training in a log; one that only its last line says may be damaged."""
    found = [one for one in records if isinstance(one, Event) and one.kind == "length"]
    if len(found) > 1 and len(records) > _FEW and records[-1] is found[-1]:
        del found[-1]
    return [one.value for one in found]


def _of_last_run(parts: tuple[Part, ...], job: Job) -> tuple[tuple[Part, ...], tuple[str, ...]]:
    """The parts that are certainly of one run, and why the number of its steps is unknown, if so.

    A log may hold several runs, each with steps from the beginning, or count the steps of each
    epoch: then the last of them is shown. With records of attempts, it is one run that restarts.
    """
    kinds = {one.kind for part in parts for one in part.events}
    if "lines" in kinds:
        return parts, (
            "The lines of the log do not say their steps (they count samples or epochs, or are "
            "rounded): the steps are unknown, and the curves go over its lines.",
        )
    if len(job.attempts) > 1 or kinds & {"attempt", "resumed"}:
        return parts, ()
    first = next((part.windows[0].step for part in parts if part.windows), 0)
    starts, last = [0], -1
    for place, part in enumerate(parts):
        if part.windows and part.windows[0].step <= first < last:
            starts.append(place)
        last = max(last, part.last)
    if len(starts) == 1:
        return parts, ()
    return parts[starts[-1] :], (
        f"The steps start from the beginning {len(starts)} times: the log holds as many runs, or "
        "counts the steps of each epoch. Speed and loss are those of the last of them, and the "
        "steps are unknown. Report each run from a file of its own, or print the epoch in the "
        "lines.",
    )


def _completed(
    parts: Sequence[Part], job: Job
) -> tuple[list[Part], dict[Quantity, str], tuple[str, ...]]:
    derived: dict[Quantity, str] = {}
    notes: list[str] = []
    done = []
    for part in parts:
        completed = complete(part.windows, job)
        derived |= completed.derived
        notes += completed.notes
        done.append(replace(part, windows=completed.windows))
    return done, derived, tuple(dict.fromkeys(notes))


_SHOWN = 80  # characters of a line


def _notes_of_log(log: Log) -> Iterator[str]:
    """What was in the log, and is not in the numbers."""
    engines = [one.value for one in log.records if isinstance(one, Event) and one.kind == "engines"]
    if engines and engines[-1]:
        yield (
            f"The program trains {integer(int(engines[-1]))} models, each with an engine of its "
            "own: skipped steps, learning rate and memory are those of the first one."
        )
    if log.assumed:
        yield (
            f"The lines do not name their step: it is the number that rises evenly in lines such "
            f"as `{log.assumed[:_SHOWN]}`. If that is wrong, say it with the spec's key report."
        )
    if log.dropped:
        yield f"{counted(log.dropped, 'damaged line')} of the log dropped."
    if log.unused and log.format:
        yield (
            f"{counted(log.unused, 'line')} with values but no step were not used, first line "
            f"{integer(log.unused_line)}."
        )


def _attempts(kept: Sequence[Kept], steady: Steady, job: Job) -> tuple[AttemptPart, ...]:
    """All attempts that the log or the job's records know."""
    recorded = {one.number: one for one in job.attempts}
    for one in kept:
        known = recorded.get(one.part.attempt, RecordedAttempt(one.part.attempt))
        recorded[known.number] = with_events(known, one.part.events)
    return tuple(
        _attempt(
            recorded[number],
            [one for one in kept if one.part.attempt == number],
            steady,
        )
        for number in sorted(recorded)
    )


def _attempt(recorded: RecordedAttempt, kept: Sequence[Kept], steady: Steady) -> AttemptPart:
    with_steps = [one for one in kept if one.part.windows]
    in_steps = seconds_in_steps(kept, recorded.number) if are_timed(kept) else None
    lost = added(lost_in_steps(one, steady) for one in kept)
    saves = sum(
        one.value or 0.0 for part in kept for one in part.part.events if one.kind == "saved"
    )
    saves = max(0.0, saves - lost.get("saving", 0.0))
    lost = added([lost, lost_outside_steps(recorded, in_steps, saves)])
    queue = None
    if recorded.began is not None and recorded.submitted is not None:
        queue = max(0.0, recorded.began - recorded.submitted)
        lost["queue"] = queue
    first = with_steps[0].part if with_steps else None
    return AttemptPart(
        number=recorded.number,
        reason=recorded.reason,
        seconds=recorded.seconds,
        queue_seconds=queue,
        first_step=first.windows[0].step if first else None,
        last_step=with_steps[-1].part.last if with_steps else None,
        resumed_step=max(0, first.before) if first else None,
        kept_steps=sum(one.kept_steps for one in kept),
        lost_steps=sum(one.lost_steps for one in kept),
        lost_seconds=lost,
    )


def _cost(job: Job, paid: float | None, useful: float | None) -> Cost | None:
    nodes = job.paid_nodes or job.nodes
    if job.price is None or not nodes or paid is None:
        return None
    hourly = job.price.usd_per_hour * nodes
    lost = None if useful is None else hourly * (paid - useful) / 3600
    return Cost(hourly * paid / 3600, lost, job.price.shown())


def _efficiency(run: Run, job: Job) -> Efficiency | None:
    rate = run.rates.get("samples_per_second")
    if rate is None or job.model is None or job.layout is None or not job.gpus:
        return None
    sequences = [one.values["sequence"] for one in run.windows if "sequence" in one.values]
    model = job.model
    if sequences and 1 <= sequences[-1] <= _LONGEST:
        model = model._replace(sequence=int(sequences[-1]))
    return efficiency_of(rate.median, model, job.layout, job.gpu, job.gpus)
