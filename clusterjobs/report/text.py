"""A run as text for a terminal: the answer first, then where the time went, then the details."""

import math
from collections.abc import Sequence

from clusterjobs.console import printable, styled, table
from clusterjobs.errors import counted
from clusterjobs.report.logs.formats import all_formats
from clusterjobs.report.logs.records import Log
from clusterjobs.report.run import LostTime, Run
from clusterjobs.report.tables import Table, dollars, duration, integer, number, seconds, share

WIDTH, HEIGHT = 60, 8  # characters; a braille character has 2 x 4 dots
_DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))  # row, column -> its bit

Point = tuple[int, float]


def plot(points: Sequence[Point], as_braille: bool) -> list[str]:
    """A curve of (step, value) with its axes, in braille characters or in plain ASCII.

    Nothing for fewer than two points.
    """
    points = [one for one in points if math.isfinite(one[1])]
    if len(points) < 2:
        return []
    across, down = (2, 4) if as_braille else (1, 1)
    least, most = min(value for _, value in points), max(value for _, value in points)
    first, last = points[0][0], points[-1][0]
    cells = [[0] * WIDTH for _ in range(HEIGHT)]
    for step, value in points:
        x = _place(step, first, last, WIDTH * across)
        y = HEIGHT * down - 1 - _place(value, least, most, HEIGHT * down)
        cells[y // down][x // across] |= _DOTS[y % down][x % across]
    mark = (lambda bits: chr(0x2800 + bits)) if as_braille else (lambda bits: "*" if bits else " ")
    rows = ["".join(map(mark, row)).rstrip("\u2800 ") for row in cells]
    labels = [number(most), *[""] * (HEIGHT - 2), number(least)]
    margin = max(map(len, labels))
    lines = [f"{label:>{margin}} |{row}" for label, row in zip(labels, rows, strict=True)]
    start, end = integer(first), f"step {integer(last)}"
    return [*lines, f"{'':>{margin}}  {start}{end:>{WIDTH - len(start)}}"]


def _place(value: float, least: float, most: float, cells: int) -> int:
    share = (value - least) / (most - least) if most > least else 0.5
    return min(cells - 1, max(0, int(share * cells)))


_BAR = 24  # characters
_UNKNOWN = "unknown"
KINDS: dict[LostTime, str] = {
    "repeated": "repeated steps",
    "data_wait": "waiting for data",
    "warm_up": "warm-up",
    "saving": "saving",
    "validation": "validation",
    "slow": "slow steps",
    "skipped": "skipped steps",
    "stalled": "stalled",
    "staging": "staging",
    "preflight": "preflight",
    "starting": "starting",
    "restart": "restarting",
    "queue": "in the queue",
}


def run_text(run: Run, as_unicode: bool) -> str:
    """All of one run. `as_unicode`: the terminal can show bars and braille."""
    about = [
        f"job {run.job_id}" if run.job_id else "",
        run.framework,
        counted(run.nodes, "node") if run.nodes else "",
        counted(run.gpus, "GPU") if run.gpus else "",
        counted(len(run.attempts), "attempt") if len(run.attempts) > 1 else "",
    ]
    title = printable(f"{run.name}: {', '.join(filter(None, about))}".rstrip(": "))
    losses = [(one.step, one.values["loss"]) for one in run.windows if "loss" in one.values]
    rows = (
        ("speed", _speed(run)),
        ("efficiency", _efficiency(run)),
        ("steps", _steps(run)),
        ("loss", f"{number(losses[0][1])} to {number(losses[-1][1])}" if losses else ""),
        ("memory", f"{number(run.peak_memory_gib)} GiB" if run.peak_memory_gib else ""),
        ("goodput", _goodput(run)),
        ("cost", _cost(run)),
    )
    curve = plot(losses, as_unicode)
    blocks = [
        "\n".join(f"  {name:<12}{value}" for name, value in rows if value),
        _time_block(run, as_unicode),
        _attempts_block(run),
        "\n".join(["loss", *curve]) if curve else "",
        "\n".join(map(printable, run.advice)),
        "\n".join(f"note: {printable(note)}" for note in run.notes),
    ]
    text = "\n\n".join(printable(block, kept="\n") for block in blocks if block)
    return f"{styled(title, bold=True)}\n{text}"


def _speed(run: Run) -> str:
    found = []
    if samples := run.rates.get("samples_per_second"):
        found.append(f"{number(samples.median)} samples/s")
    if tokens := run.rates.get("tokens_per_second"):
        found.append(f"{number(tokens.median)} tokens/s")
    if step := run.rates.get("seconds"):
        ends = f"80 % from {seconds(step.p10)} to {seconds(step.p90)}"
        found.append(f"{seconds(step.median)} a step ({ends})")
    if not found:
        return f"unknown: {run.no_steady_state}" if run.windows else ""
    return ", ".join(found)


def _efficiency(run: Run) -> str:
    one = run.efficiency
    if one is None:
        printed = run.rates.get("printed_tflops_per_gpu")
        if printed is None:
            return ""
        return f"{number(printed.median)} TFLOP/s per GPU, as the framework prints it"
    mfu = f"MFU {share(one.mfu)}" if one.mfu is not None else "model FLOPs"
    text = f"{mfu} ({number(one.tflops_per_gpu_mfu)} TFLOP/s per GPU)"
    if one.tflops_per_gpu_hfu is not None:
        hfu = f"HFU {share(one.hfu)}" if one.hfu is not None else "with recomputation"
        text += f", {hfu} ({number(one.tflops_per_gpu_hfu)} TFLOP/s per GPU)"
    return text + (
        f", peak {number(one.peak_tflops)} TFLOP/s ({one.gpu})" if one.peak_tflops else ""
    )


def _steps(run: Run) -> str:
    if run.steps is None:
        return "unknown" if run.windows else "none"
    rest = run.remaining_seconds
    parts = (
        integer(run.steps),
        f" of {integer(run.total_steps)}" if run.total_steps else "",
        f", {integer(run.skipped_steps)} of them skipped (loss scale)" if run.skipped_steps else "",
        f"; {counted(run.lost_steps, 'step')} repeated" if run.lost_steps else "",
        f"; the rest takes {duration(rest)} at this speed" if rest else "",
    )
    return "".join(parts)


def _goodput(run: Run) -> str:
    if run.goodput is None or run.paid_seconds is None:
        return ""
    is_recorded = any(one.seconds is not None for one in run.attempts)
    of = "of the time that was paid for" if is_recorded else "of the steps' time"
    return f"{share(run.goodput)} of {duration(run.paid_seconds)}, {of}"


def _cost(run: Run) -> str:
    if run.cost is None:
        return ""
    one = run.cost
    lost = "" if one.lost_dollars is None else f", of which {dollars(one.lost_dollars)} lost"
    return f"{dollars(one.dollars)}{lost}; {one.price}"


def _time_block(run: Run, as_unicode: bool) -> str:
    lost = {kind: run.lost_seconds[kind] for kind in KINDS if run.lost_seconds.get(kind, 0) > 0}
    if run.goodput is None or not run.paid_seconds or not lost:
        return ""
    paid, waited = run.paid_seconds, lost.pop("queue", 0.0)
    rows = [("useful steps", run.goodput * paid)]
    rows += [(KINDS[kind], value) for kind, value in sorted(lost.items(), key=lambda one: -one[1])]
    character = "\u2588" if as_unicode else "#"
    cells = [
        [f"  {name}", duration(value), share(value / paid), character * round(_BAR * value / paid)]
        for name, value in rows
    ]
    if waited:
        cells.append([f"  {KINDS['queue']}", duration(waited), "not paid", ""])
    return f"where the time went\n{table(cells)}"


def _attempts_block(run: Run) -> str:
    if len(run.attempts) < 2:
        return ""
    columns = [
        ["  attempt", *(f"  {one.number}" for one in run.attempts)],
        ["ended by", *(printable(one.reason) or _UNKNOWN for one in run.attempts)],
        ["time", *(_duration(one.seconds) for one in run.attempts)],
        ["in the queue", *(_duration(one.queue_seconds) for one in run.attempts)],
        [
            "steps",
            *(
                "none" if one.last_step is None else f"{one.first_step} to {one.last_step}"
                for one in run.attempts
            ),
        ],
        ["repeated later", *(str(one.lost_steps) for one in run.attempts)],
    ]
    known = [column for column in columns if set(column[1:]) != {_UNKNOWN}]
    return table([list(row) for row in zip(*known, strict=True)])


def _duration(seconds: float | None) -> str:
    return _UNKNOWN if seconds is None else duration(seconds)


def unread_text(
    found: Sequence[tuple[Run, Log]], with_pattern: bool = False, failure: Sequence[str] = ()
) -> str:
    """That no step was found in these logs, and, of a single one, what it has instead.

    `with_pattern`: the spec has a pattern of its own, which matches no line. `failure`: the end of
    a traceback in a single log.
    """
    if failure:
        title = f"{found[0][0].name}: it failed before its first step:"
        return "\n".join(map(printable, (title, *(f"  {line}" for line in failure))))
    lines = [
        f"{run.name}: no step was found in {counted(log.lines, 'line')}."
        if log.bytes or log.lines
        else f"{run.name}: the log is empty."
        for run, log in found
    ]
    formats = ", ".join(form.name for form in all_formats())
    if with_pattern and any(log.bytes or log.lines for _, log in found):
        lines += [
            "The spec's key `report` matches no line with both a step and a value.",
            f"Formats that were tried, too: {formats}.",
        ]
    elif any(log.bytes or log.lines for _, log in found):
        lines += [
            f"Formats that were tried: {formats}.",
            "If the program prints lines of its own, say in the spec what they look like, for "
            r"example report: {step: 'step (\d+)', loss: 'loss ([\d.]+)'}, and name it with "
            "--spec.",
        ]
    if len(found) == 1 and (unknown := found[0][1].unknown):
        lines += ["the most frequent lines:", *(f"  {line}" for line in unknown)]
    return "\n".join(map(printable, lines))


def table_text(shown: Table) -> str:
    rows = [shown.head, *shown.rows] if shown.rows else []
    cells = [[printable(cell) for cell in (f"  {row[0]}", *row[1:])] for row in rows]
    lines = (printable(shown.title), table(cells), *map(printable, shown.notes))
    return "\n".join(line for line in lines if line)
