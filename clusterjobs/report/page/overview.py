"""The answer in a few large numbers: how fast, how efficient, what was lost, what it cost.

It knows a run; it must not know HTML.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from clusterjobs.counted import counted
from clusterjobs.report.numbers import (
    dollars,
    duration,
    integer,
    loss,
    number,
    seconds,
    share,
)
from clusterjobs.report.records import Quantity
from clusterjobs.report.run import Run, Spread


class Fact(NamedTuple):
    """`label` and `value` are read together; `details`: short texts below them."""

    label: str
    value: str
    unit: str = ""
    details: tuple[str, ...] = ()


def subtitle(run: Run) -> str:
    parts = [
        run.framework,
        f"job {run.job_id}" if run.job_id else "",
        counted(run.nodes, "node") if run.nodes else "",
        counted(run.gpus, "GPU") if run.gpus else "",
        counted(len(run.attempts), "attempt") if run.attempts else "",
        _steps(run),
    ]
    return " · ".join(part for part in parts if part)


def facts(run: Run) -> list[Fact]:
    """Those that are known, the most wanted first."""
    parts = (_throughput, _efficiency, _goodput, _loss, _cost)
    return [fact for part in parts for fact in part(run)]


def last_value(run: Run, quantity: Quantity) -> tuple[int, float] | None:
    """The newest value of the log, with its step."""
    for window in reversed(run.windows):
        if quantity in window.values:
            return window.step, window.values[quantity]
    return None


def _steps(run: Run) -> str:
    if run.steps is None:
        return ""
    of = f" of {integer(run.total_steps)}" if run.total_steps else ""
    return f"{integer(run.steps)}{of} steps"


def _throughput(run: Run) -> Iterator[Fact]:
    names: tuple[tuple[Quantity, str], ...] = (
        ("tokens_per_second", "tokens/s"),
        ("samples_per_second", "samples/s"),
    )
    known = [(run.rates[name], unit) for name, unit in names if name in run.rates]
    time = run.rates.get("seconds")
    details = [f"{number(rate.median)} {unit}" for rate, unit in known[1:]]
    details += [_step_time(time)] if time else []
    if known:
        if run.steady_from is not None:
            details.append(f"steady state from step {integer(run.steady_from)}")
        yield Fact("Throughput", number(known[0][0].median), known[0][1], tuple(details))
    elif run.mean_samples_per_second is not None:
        why = run.no_steady_state or "no steady state"
        mean = number(run.mean_samples_per_second)
        yield Fact("Throughput, mean of all steps", mean, "samples/s", (why,))
    elif time:
        yield Fact("Time of a step", seconds(time.median), "", (_step_time(time),))
    elif run.no_steady_state:
        yield Fact("Throughput", "unknown", "", (run.no_steady_state,))


def _step_time(time: Spread) -> str:
    return f"{seconds(time.median)} a step ({seconds(time.p10)} to {seconds(time.p90)})"


def _efficiency(run: Run) -> Iterator[Fact]:
    found = run.efficiency
    if found is None:
        printed = run.rates.get("printed_mfu")
        if printed:
            yield Fact("MFU", share(printed.median), "", ("as the framework prints it",))
        return
    model = f"{number(found.tflops_per_gpu_mfu, 3)} TFLOP/s per GPU for the model"
    if found.mfu is None:
        yield Fact("Model FLOP", number(found.tflops_per_gpu_mfu, 3), "TFLOP/s per GPU")
        return
    details = [model]
    if found.hfu is not None and found.tflops_per_gpu_hfu is not None:
        hardware = number(found.tflops_per_gpu_hfu, 3)
        details.append(f"HFU {share(found.hfu)} with recomputation: {hardware} TFLOP/s")
    peak = number(found.peak_tflops) if found.peak_tflops else ""
    details += [f"of {peak} TFLOP/s ({found.gpu})"] if peak else []
    yield Fact("MFU", share(found.mfu), "", tuple(details))


def _goodput(run: Run) -> Iterator[Fact]:
    if run.goodput is None:
        return
    details = [f"of {duration(run.paid_seconds)} paid"] if run.paid_seconds else []
    if run.lost_steps:
        details.append(f"{counted_large(run.lost_steps, 'step')} repeated")
    if run.skipped_steps:
        details.append(f"{counted_large(run.skipped_steps, 'step')} skipped")
    yield Fact("Goodput", share(run.goodput), "", tuple(details))


def _loss(run: Run) -> Iterator[Fact]:
    if last := last_value(run, "loss"):
        details = [f"at step {integer(last[0])}"]
        if validation := last_value(run, "validation_loss"):
            details.append(f"validation {loss(validation[1])} at step {integer(validation[0])}")
        yield Fact("Loss", loss(last[1]), "", tuple(details))


def _cost(run: Run) -> Iterator[Fact]:
    if run.cost:
        details = [run.cost.price]
        if run.cost.lost_dollars is not None:
            details.insert(0, f"{dollars(run.cost.lost_dollars)} of it for lost time")
        yield Fact("Cost", dollars(run.cost.dollars), "", tuple(details))


def counted_large(count: int, noun: str) -> str:
    return f"{integer(count)} {noun}{'' if count == 1 else 's'}"
