"""A run at a glance: a few large numbers, and where the paid time went, as rows with bars."""

from collections.abc import Iterator
from typing import NamedTuple

from clusterjobs.errors import counted
from clusterjobs.report.logs.records import Quantity
from clusterjobs.report.points import last_value
from clusterjobs.report.run import LostTime, Run, Spread
from clusterjobs.report.tables import dollars, duration, integer, loss, number, seconds, share


class Fact(NamedTuple):
    """`label` and `value` are read together; `details`: short texts below them."""

    label: str
    value: str
    unit: str = ""
    details: tuple[str, ...] = ()


def subtitle(run: Run) -> str:
    of = f" of {integer(run.total_steps)}" if run.total_steps else ""
    parts = [
        run.framework,
        f"job {run.job_id}" if run.job_id else "",
        counted(run.nodes, "node") if run.nodes else "",
        counted(run.gpus, "GPU") if run.gpus else "",
        counted(len(run.attempts), "attempt") if run.attempts else "",
        "" if run.steps is None else f"{integer(run.steps)}{of} steps",
    ]
    return " · ".join(part for part in parts if part)


def facts(run: Run) -> Iterator[Fact]:
    """The facts that are known, the most important first."""
    yield from _throughput(run)
    yield from _efficiency(run)
    if run.goodput is not None:
        details = [f"of {duration(run.paid_seconds)} paid"] if run.paid_seconds else []
        for count, what in ((run.lost_steps, "repeated"), (run.skipped_steps, "skipped")):
            if count:
                details.append(f"{integer(count)} step{'' if count == 1 else 's'} {what}")
        yield Fact("Goodput", share(run.goodput), "", tuple(details))
    if last := last_value(run, "loss"):
        details = [f"at step {integer(last[0])}"]
        if validation := last_value(run, "validation_loss"):
            details.append(f"validation {loss(validation[1])} at step {integer(validation[0])}")
        yield Fact("Loss", loss(last[1]), "", tuple(details))
    if run.cost:
        details = [run.cost.price]
        if run.cost.lost_dollars is not None:
            details.insert(0, f"{dollars(run.cost.lost_dollars)} of it for lost time")
        yield Fact("Cost", dollars(run.cost.dollars), "", tuple(details))


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
        if printed := run.rates.get("printed_mfu"):
            yield Fact("MFU", share(printed.median), "", ("as the framework prints it",))
        return
    tflops = number(found.tflops_per_gpu_mfu, 3)
    if found.mfu is None:
        yield Fact("Model FLOP", tflops, "TFLOP/s per GPU")
        return
    details = [f"{tflops} TFLOP/s per GPU for the model"]
    if found.hfu is not None and found.tflops_per_gpu_hfu is not None:
        hardware = number(found.tflops_per_gpu_hfu, 3)
        details.append(f"HFU {share(found.hfu)} with recomputation: {hardware} TFLOP/s")
    if found.peak_tflops:
        details.append(f"of {number(found.peak_tflops)} TFLOP/s ({found.gpu})")
    yield Fact("MFU", share(found.mfu), "", tuple(details))


# Each with what a reader should know of it.
NAMES: dict[LostTime, tuple[str, str]] = {
    "queue": ("Queue", "waiting for nodes, which costs nothing"),
    "staging": ("Staging", "copying data to the nodes"),
    "preflight": ("Preflight", "checks of the nodes"),
    "starting": ("Starting", "start and end of the first attempt"),
    "restart": ("Restarting", "start and end of later attempts"),
    "warm_up": ("Warm-up", "slower steps at the start of an attempt"),
    "data_wait": ("Waiting for data", "steps that waited for their data"),
    "saving": ("Saving", "checkpoints"),
    "validation": ("Validation", ""),
    "repeated": ("Repeated steps", "run again from an older checkpoint"),
    "skipped": ("Skipped steps", "they changed no weights"),
    "stalled": ("Stalled", "attempts that the watchdog ended"),
    "slow": ("Slow steps", "slower than the steady state"),
}


class Bar(NamedTuple):
    """`width`: percent of the paid time, for a drawing. `kind`: useful, lost or free."""

    name: str
    meaning: str
    time: str
    share: str
    width: str
    kind: str


def bars(run: Run) -> list[Bar]:
    """The useful time, then what was lost, the longest first; the queue last, since it is free."""
    paid = run.paid_seconds
    if not paid:
        return []
    found = []
    if run.goodput is not None:
        found.append(_bar("Useful", "steps that were kept", run.goodput * paid, paid, "useful"))
    lost = sorted(run.lost_seconds.items(), key=lambda item: (-item[1], item[0]))
    for part, time in lost:
        if time > 0 and part != "queue":
            found.append(_bar(*NAMES[part], time, paid, "lost"))
    if queue := run.lost_seconds.get("queue"):
        found.append(_bar(*NAMES["queue"], queue, paid, "free"))
    return found


def _bar(name: str, meaning: str, seconds: float, paid: float, kind: str) -> Bar:
    part = seconds / paid
    shown = "not paid" if kind == "free" else share(part)
    width = number(100 * min(1.0, max(0.0, part)), 3)
    return Bar(name, meaning, duration(seconds), shown, width, kind)
