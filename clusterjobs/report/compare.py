"""The tables of a report: runs beside each other, beside a prediction, and their ranks."""

import pathlib
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from clusterjobs.console import show_problems
from clusterjobs.errors import one_problem
from clusterjobs.files import open_regular
from clusterjobs.plugins import Prediction, Unknown, predict
from clusterjobs.report.logs.flight_recorder import MOST_BYTES, hang, read_dump
from clusterjobs.report.logs.records import Log, Quantity
from clusterjobs.report.points import best_point
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table, dollars, integer, number, seconds, share
from clusterjobs.runs.load import load

TITLE = "comparison"
_UNKNOWN = "-"
_MOST_NAMES = 3  # in a sentence


def comparison(runs: Sequence[Run]) -> Table:
    """A row for each run; what is unknown is a dash, and of all runs, left out.

    Points of a sweep have their values.
    """
    keys = tuple(dict.fromkeys(key for run in runs for key in run.point))
    head = (
        *("run", *keys, "GPUs", "steps", "samples/s", "tokens/s", "a step"),
        *("MFU", "HFU", "goodput", "loss", "cost"),
    )
    rows = [_row(run, keys) for run in runs]
    known = [place for place in range(len(head)) if {row[place] for row in rows} != {_UNKNOWN}]
    columns = [tuple(row[place] for place in known) for row in (head, *rows)]
    return Table(TITLE, columns[0], tuple(columns[1:]), tuple(_notes(runs)))


def _row(run: Run, keys: Sequence[str]) -> tuple[str, ...]:
    efficiency = run.efficiency
    step = run.rates.get("seconds")
    losses = [one.values["loss"] for one in run.windows if "loss" in one.values]
    return (
        run.name + (f" ({run.job_id})" if run.job_id else ""),
        *(run.point.get(key, _UNKNOWN) for key in keys),
        _UNKNOWN if run.gpus is None else str(run.gpus),
        _UNKNOWN if run.steps is None else integer(run.steps),
        _median(run, "samples_per_second"),
        _median(run, "tokens_per_second"),
        seconds(step.median) if step else _UNKNOWN,
        share(efficiency.mfu) if efficiency and efficiency.mfu else _UNKNOWN,
        share(efficiency.hfu) if efficiency and efficiency.hfu else _UNKNOWN,
        _UNKNOWN if run.goodput is None else share(run.goodput),
        number(losses[-1]) if losses else _UNKNOWN,
        dollars(run.cost.dollars) if run.cost else _UNKNOWN,
    )


def _median(run: Run, name: Quantity) -> str:
    return number(run.rates[name].median) if name in run.rates else _UNKNOWN


def _notes(runs: Sequence[Run]) -> list[str]:
    reasons: dict[str, list[str]] = {}
    for run in runs:
        if run.no_steady_state:
            reasons.setdefault(run.no_steady_state, []).append(run.name)
    best = best_point(runs)
    unsteady = [best] if best else []
    unsteady += [
        f"No speed of {first_names(names)}: {reason}." for reason, names in reasons.items()
    ]
    frameworks = {run.framework for run in runs if run.framework}
    if len(frameworks) > 1:
        unsteady.append(
            f"The logs are of {', '.join(sorted(frameworks))}: losses may differ in units."
        )
    return unsteady


def first_names(names: Sequence[str]) -> str:
    """`a, b, c and 9 more`."""
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def against(run: Run, predicted: Prediction, where: str) -> Table:
    """A measured run beside a prediction: what both have, and what differs most."""
    efficiency, step = run.efficiency, run.rates.get("seconds")
    tokens = run.rates.get("tokens_per_second")
    per_gpu = tokens.median / run.gpus if tokens and run.gpus else None
    found = [
        ("time of a step, s", step and step.median, predicted.step_seconds),
        ("tokens/s per GPU", per_gpu, predicted.tokens_per_second_per_gpu),
        (
            "model TFLOP/s per GPU",
            efficiency and efficiency.tflops_per_gpu_mfu,
            predicted.tflops_per_gpu,
        ),
        ("MFU", efficiency and efficiency.mfu, predicted.mfu),
        ("memory, GiB", run.peak_memory_gib, predicted.memory_gib),
    ]
    both = [(name, value, ranged) for name, value, ranged in found if value and ranged]
    rows = []
    for name, value, ranged in both:
        shown = share if name == "MFU" else number
        inside = ranged.low <= value <= ranged.high
        apart = f"{100 * (value / ranged.mid - 1):+.1f} %"
        rows.append(
            (
                name,
                shown(value),
                shown(ranged.mid),
                f"{shown(ranged.low)} to {shown(ranged.high)}",
                apart if inside else f"{apart}, outside the range",
            )
        )
    title = f"{run.name} against the prediction for {where}"
    if not rows:
        return Table(title, notes=("Nothing that was measured was also predicted.",))
    name, value, ranged = max(both, key=lambda one: abs(one[1] / one[2].mid - 1))
    excess = 100 * (value / ranged.mid - 1)
    note = (
        f"What differs most is the {name.split(',')[0]}: {abs(excess):.1f} % "
        f"{'more' if excess > 0 else 'less'} than predicted."
    )
    head = ("quantity", "measured", "predicted", "range (80 %)", "difference")
    return Table(title, head, tuple(rows), (note,))


_NEAR = 0.01  # of two batches that are the same
_POSSIBLE = 1.05  # an efficiency above it is not explained by noise
_UNKNOWN_SPEED = "unknown"  # the kind of scaling
FEWEST_SIZES = 4  # for a fit of Amdahl's law
_SERIAL = 0.001  # of the time on one GPU: a smaller serial part is noise
_UNITS: dict[Quantity, str] = {
    "samples_per_second": "samples/s",
    "tokens_per_second": "tokens/s",
}


class _Size(NamedTuple):
    """A run that can be compared: its rate, and the batch that follows from its step time.

    Both are in samples, or both in tokens. The batch is None if the log has no time of a step.
    """

    run: Run
    gpus: int
    rate: float
    batch: float | None


def scaling(runs: Sequence[Run]) -> Table | None:
    """How the speed of runs grows with their GPUs; None if they do not differ in their GPUs.

    Weak scaling: the same batch per GPU. Strong: the same batch. An efficiency is relative to the
    smallest run (of several, the fastest), and only runs with a steady state have one. More than 1
    is impossible, and is never called success.
    """
    sized = [run for run in runs if run.gpus]
    if len({run.gpus for run in sized}) < 2:
        return None
    # The rate that most of the runs have: logs of language models may print tokens/s alone.
    name = max(_UNITS, key=lambda name: sum(name in run.rates for run in sized))
    sizes = [(run, _size(run, name)) for run in sized]
    notes = [
        f"{run.name}: left out, since "
        + (
            f"it has no steady state: {run.no_steady_state}"
            if run.no_steady_state
            else f"its log has no {_UNITS[name]}"
        )
        for run, one in sizes
        if not one
    ]
    steady = sorted((one for _, one in sizes if one), key=lambda one: (one.gpus, -one.rate))
    if len({one.gpus for one in steady}) < 2:
        notes.append("No efficiency: fewer than two sizes have a steady state.")
        return Table("scaling", notes=(*notes, *_naive(sized, name)))
    base = steady[0]
    kinds = [_kind(base, one) for one in steady]
    rows = []
    of_same = []
    for one, kind in zip(steady, kinds, strict=True):
        value = efficiency(base, one)
        text = share(value) if kind and value <= _POSSIBLE else "not comparable"
        rows.append(
            (
                one.run.name,
                str(one.gpus),
                number(one.rate),
                number(one.rate / one.gpus),
                "-" if one.batch is None else number(round(one.batch)),
                kind or "neither",
                text,
            )
        )
        notes += _remarks(base, one, kind)
        if kind in ("base", "strong"):
            of_same.append(one)
    if fit := _amdahl(of_same):
        notes.append(fit)
    head = ("run", "GPUs", _UNITS[name], "per GPU", "batch", "scaling", "efficiency")
    return Table("scaling", head, tuple(rows), tuple(notes))


def _size(run: Run, name: Quantity) -> _Size | None:
    rate, step = run.rates.get(name), run.rates.get("seconds")
    if rate is None or not run.gpus:
        return None
    return _Size(run, run.gpus, rate.median, rate.median * step.median if step else None)


def _kind(base: _Size, one: _Size) -> str:
    """Weak or strong scaling against the smallest run; "" if it is neither."""
    if one is base:
        return "base"
    if one.batch is None or base.batch is None:
        return _UNKNOWN_SPEED
    if abs(one.batch - base.batch) <= _NEAR * base.batch:
        return "strong"
    per_gpu = one.batch / one.gpus
    return "weak" if abs(per_gpu * base.gpus - base.batch) <= _NEAR * base.batch else ""


def efficiency(base: _Size, one: _Size) -> float:
    """The rate per GPU against the smallest run: the same for weak and for strong scaling."""
    return one.rate / one.gpus / (base.rate / base.gpus)


def _remarks(base: _Size, one: _Size, kind: str) -> list[str]:
    name, value = one.run.name, efficiency(base, one)
    if kind == _UNKNOWN_SPEED and value <= _POSSIBLE:
        return [f"{name}: the log has no batch, so that it may be another one per GPU."]
    if not kind:
        return [f"{name}: another batch per GPU than {base.run.name}, so no efficiency."]
    if value <= _POSSIBLE:
        return []
    waited = base.run.lost_seconds.get("data_wait", 0.0)
    lost = sum(value for kind, value in base.run.lost_seconds.items() if kind != "queue")
    why = ", mostly waiting for its data" if lost and waited > lost / 2 else ""
    return [
        f"{name}: {number(value)} times the speed per GPU of {base.run.name} is no success: "
        f"{base.run.name} is slower than its GPUs{why}."
    ]


def _naive(runs: Sequence[Run], name: Quantity) -> list[str]:
    """What a careless division would give, where it is impossible."""
    rates = [[one.values[name] for one in run.windows if name in one.values] for run in runs]
    known = sorted(
        (
            (run.gpus or 1, found[-1], run)
            for run, found in zip(runs, rates, strict=True)
            if found and found[-1]
        ),
        key=lambda one: one[0],
    )
    if len({gpus for gpus, _, _ in known}) < 2:
        return []
    (few, slow, small), (many, fast, large) = known[0], known[-1]
    value = fast / many / (slow / few)
    if value <= _POSSIBLE:
        return []
    return [
        f"Dividing the last {_UNITS[name]} of both gives {number(value, 3)} for {large.name} "
        f"against {small.name}. More than 1 is impossible: {small.name} was slower than its GPUs."
    ]


def _amdahl(sizes: Sequence[_Size]) -> str | None:
    """Least squares of T(n) = serial + parallel / n over runs of the same batch."""
    if len({one.gpus for one in sizes}) < FEWEST_SIZES:
        return None
    points = [(1 / one.gpus, one.batch / one.rate) for one in sizes if one.batch]
    mean_x = sum(x for x, _ in points) / len(points)
    mean_y = sum(y for _, y in points) / len(points)
    spread = sum((x - mean_x) ** 2 for x, _ in points)
    parallel = sum((x - mean_x) * (y - mean_y) for x, y in points) / spread
    serial = mean_y - parallel * mean_x
    noise = _SERIAL * parallel
    if parallel <= 0 or serial < -noise:
        return "Amdahl's law does not describe these runs."
    if serial < noise:
        return "Amdahl's law: these runs show no part of a step that more GPUs do not make shorter."
    return (
        f"Amdahl's law: {number(1000 * serial, 3)} ms of a step do not get shorter with more GPUs; "
        f"at most {number((serial + parallel) / serial, 3)} times the speed of one GPU."
    )


def predicted_for(spec: pathlib.Path) -> Prediction:
    """The prediction. Raises InputError if the spec is wrong, or nothing can be predicted."""
    planned = load(spec, (), to_write=False)
    if planned.sweep:
        raise one_problem(f"--against {spec}: it has a sweep", hint="name a spec without a sweep")
    found = predict(planned.planned_jobs[0])
    if isinstance(found, Unknown):
        show_problems(found.problems)
        raise one_problem(f"--against {spec}: {found.why}", hint=found.hint)
    return found


def tables_of(runs: Sequence[Run], spec: pathlib.Path | None) -> list[Table]:
    """The tables that say something about these runs. Raises InputError for a wrong spec."""
    tables = [comparison(runs)] if len(runs) > 1 else []
    if (scaled := scaling(runs)) is not None:
        tables.append(scaled)
    if spec:
        predicted = predicted_for(spec)
        tables += [against(run, predicted, spec.name) for run in runs]
    return tables


_DUMP = re.compile(r"nccl-trace-rank-(\d{1,7})")  # the name that the job script chooses


def rank_tables(run: Run, log: Log, folder: pathlib.Path | None) -> Iterator[Table]:
    """The ranks that are slow, and those that a hang waited for; nothing without such ranks."""
    if log.slow_ranks:
        head = ("rank", "node", "slower by", "in the share of steps", "compared")
        rows = tuple(
            (
                *(str(one.rank), _node_of(one.rank, run)),
                *(share(one.ratio - 1), share(one.often), one.what),
            )
            for one in log.slow_ranks
        )
        note = (
            f"Compared with the median of all ranks, in the last {log.slow_ranks[0].steps} steps."
        )
        yield Table(f"{run.name}: slow ranks", head, rows, (note,))
    if folder:
        dumps, problems = [], []
        named = ((_DUMP.fullmatch(path.name), path) for path in sorted(folder.iterdir()))
        for rank, path in ((int(found[1]), path) for found, path in named if found):
            try:
                with open_regular(path) as file:
                    dumps.append(read_dump(file.read(MOST_BYTES + 1), rank))
            except (OSError, ValueError) as error:
                problems.append(f"The dump of rank {rank} cannot be read: {error}")
        sentences = (*(hang(dumps, run.ranks) if dumps else ()), *problems)
        if sentences:
            yield Table(f"{run.name}: the hang, by the flight recorder", notes=sentences)


def _node_of(rank: int, run: Run) -> str:
    """`2 of 4`, in the order of the job's nodes; each has the same number of ranks."""
    if not run.ranks or not run.nodes or rank >= run.ranks or run.ranks % run.nodes:
        return "-"
    return f"{rank // (run.ranks // run.nodes) + 1} of {run.nodes}"
