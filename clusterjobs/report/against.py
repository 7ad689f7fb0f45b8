"""A measured run beside foresight's prediction for the same layout."""

from __future__ import annotations

from typing import NamedTuple

from clusterjobs.foresight.records import Range
from clusterjobs.report.numbers import number, share
from clusterjobs.report.run import Run
from clusterjobs.report.tables import Table


class Predicted(NamedTuple):
    """What foresight expects; None where it gives nothing. `where`: the spec."""

    where: str
    step_seconds: Range | None = None
    tokens_per_second_per_gpu: Range | None = None
    tflops_per_gpu: Range | None = None
    mfu: Range | None = None
    memory_gib: Range | None = None


def against(run: Run, predicted: Predicted) -> Table:
    """Each quantity that both have, and which of them differs most."""
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
    rows = tuple(_row(name, value, ranged) for name, value, ranged in both)
    title = f"{run.name} against the prediction for {predicted.where}"
    if not rows:
        return Table(title, notes=("Nothing that was measured was also predicted.",))
    name, value, ranged = max(both, key=lambda one: abs(one[1] / one[2].mid - 1))
    apart = 100 * (value / ranged.mid - 1)
    note = (
        f"What differs most is the {name.split(',')[0]}: {abs(apart):.1f} % "
        f"{'more' if apart > 0 else 'less'} than predicted."
    )
    head = ("quantity", "measured", "predicted", "range (80 %)", "difference")
    return Table(title, head, rows, (note,))


def _row(name: str, value: float, ranged: Range) -> tuple[str, ...]:
    shown = share if name == "MFU" else number
    inside = ranged.low <= value <= ranged.high
    return (
        name,
        shown(value),
        shown(ranged.mid),
        f"{shown(ranged.low)} to {shown(ranged.high)}",
        _difference(value, ranged) + ("" if inside else ", outside the range"),
    )


def _difference(value: float, ranged: Range) -> str:
    return f"{100 * (value / ranged.mid - 1):+.1f} %"
