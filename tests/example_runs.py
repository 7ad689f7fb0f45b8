"""Runs made by hand, to be shown: a short one, a week, a sweep of twelve points, a hostile one."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

from clusterjobs.report.logs.records import Quantity, Window
from clusterjobs.report.run import AttemptPart, Cost, Efficiency, LostTime, Run, Spread


def short_run() -> Run:
    """3,000 steps on one node in 30 windows, which wait for their data at first."""
    times = [9.7, 8.1, 6.4, 5.2, 3.9, 2.8, 1.9, 1.2, 0.9, 0.6, 0.754] + [0.36] * 19
    chance = random.Random(1)
    windows = []
    for number, seconds in enumerate(times, start=1):
        step = 100 * number
        time = seconds * chance.uniform(0.96, 1.05)
        values = _values(
            step, time, 64, 1024, 10.8 - 1.9 * math.log10(step) + chance.gauss(0, 0.05)
        )
        values |= {
            "forward_seconds": time - 0.25,
            "backward_seconds": 0.2,
            "skipped": 1.0 * (step == 100),
        }
        if step % 1000 == 0:
            values["validation_loss"] = values["loss"] + 0.08
        windows.append(Window(step, values, 100))
    lost: dict[LostTime, float] = {
        "queue": 95.0,
        "starting": 71.0,
        "data_wait": 1860.0,
        "saving": 52.0,
        "validation": 24.0,
        "slow": 7.3,
    }
    return _run("gpt-350m", windows, lost, gpus=8, nodes=1, goodput=0.345)


def week_run() -> Run:
    """A week on four nodes: 12,000 windows, five attempts, spikes of loss, a window of NaN."""
    chance = random.Random(2)
    windows, replaced = [], []
    starts = [1, 150_001, 310_001, 600_001, 900_001]
    for number in range(1, 12_001):
        step = 100 * number
        first = step - 100 in (start - 1 for start in starts)
        seconds = 0.5 * chance.gauss(1, 0.01) * (6 if first else 1.6 if number % 50 == 0 else 1)
        loss = 1.9 + 9 / (1 + step / 2500) ** 0.6 + chance.gauss(0, 0.02)
        if chance.random() < 0.001:
            loss += chance.uniform(0.4, 2.5)
        values = _values(step, seconds, 512, 2048, math.nan if number == 5000 else loss)
        if number % 100 == 0:
            values["validation_loss"] = 1.95 + 9 / (1 + step / 2500) ** 0.6
        windows.append(Window(step, values, 100))
    for start in starts[1:]:
        for step in range(start + 99, start + 9_000, 100):
            values = _values(step, 0.5, 512, 2048, 1.93 + 9 / (1 + step / 2500) ** 0.6)
            replaced.append(Window(step, values, 100))
    lost: dict[LostTime, float] = {
        "queue": 21_300.0,
        "staging": 900.0,
        "preflight": 410.0,
        "starting": 620.0,
        "restart": 2_600.0,
        "warm_up": 1_900.0,
        "saving": 7_400.0,
        "validation": 5_200.0,
        "repeated": 17_900.0,
        "stalled": 1_800.0,
        "slow": 3_100.0,
    }
    run = _run("llama-8b-fineweb", windows, lost, gpus=32, nodes=4, goodput=0.931)
    reasons = ("time_limit", "crash", "node_failure", "time_limit", "completed")
    attempts = tuple(
        AttemptPart(
            number=index + 1,
            reason=reason,
            seconds=128_000.0 + 900 * index,
            queue_seconds=4_260.0,
            first_step=starts[index],
            last_step=(starts[index + 1] + 8_999) if index < 4 else 1_200_000,
            resumed_step=starts[index] - 1 if index else None,
            kept_steps=(starts[index + 1] if index < 4 else 1_200_001) - starts[index],
            lost_steps=9_000 if index < 4 else 0,
            lost_seconds={"repeated": 4_475.0, "saving": 1_480.0}
            if index < 4
            else {"saving": 1_480.0},
        )
        for index, reason in enumerate(reasons)
    )
    return replace(
        run,
        attempts=attempts,
        replaced=tuple(replaced),
        total_steps=2_000_000,
        lost_steps=36_000,
        cost=Cost(
            14_112.4, 973.8, "4 x p4d.24xlarge, us-east-1, $21.96 an hour, list price of 2026-11"
        ),
        advice=(
            "Repeated steps cost more than anything else: a checkpoint every 2,000 steps instead "
            "of 9,000 would save about an hour for each restart.",
        ),
    )


def sweep_runs(points: int = 12) -> list[Run]:
    """Points with different learning rates; the fourth of them diverges."""
    runs = []
    for index in range(points):
        chance = random.Random(index)
        rate = 1e-4 * 1.5**index
        windows = []
        for step in range(10, 5_001, 10):
            best = 2.2 + 0.02 * (index - 6) ** 2
            loss = best + (10.8 - best) / (1 + step / 150) ** 0.9 + chance.gauss(0, 0.03)
            if index == 3 and step > 3_000:
                loss += (step - 3_000) / 700
            values = _values(step, (0.4 + 0.01 * index) * chance.gauss(1, 0.02), 128, 1024, loss)
            values["learning_rate"] = rate * min(1, step / 500)
            windows.append(Window(step, values, 10))
        run = _run(f"lr-{rate:.2g}", windows, {"starting": 60.0, "saving": 30.0 + index}, 8, 1, 0.9)
        runs.append(replace(run, job_id=str(4200 + index), point={"args.lr": f"{rate:.2g}"}))
    return runs


def seeded_sweep(seeds: int = 5) -> list[Run]:
    """120 points: 8 learning rates, 3 widths and 5 seeds; some diverge, fail or still run."""
    runs: list[Run] = []
    grid = itertools.product((1e-5, 3e-5, 1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2), (256, 512, 768))
    for number, (rate, width) in enumerate(grid):
        for seed in range(1, seeds + 1):
            chance = random.Random(100 * number + seed)
            best = 2.4 + 0.25 * math.log10(rate / 4e-4) ** 2 - 0.2 * math.log2(width / 256)
            state = {37: "crash", 61: "running"}.get(len(runs), "completed")
            steps = {"crash": 700, "running": 1200}.get(state, 2_000)
            windows = []
            for step in range(20, steps + 1, 20):
                loss = best + (10.8 - best) / (1 + step / 150) ** 0.9 + chance.gauss(0, 0.04)
                values = _values(step, 0.2 * width / 256 * chance.gauss(1, 0.02), 128, 1024, loss)
                windows.append(Window(step, values, 20))
            run = _run(f"lr={rate:g},width={width},seed={seed}", windows, {}, 8, 1, 0.9)
            attempt = replace(run.attempts[0], reason="" if state == "running" else state)
            if state == "running":
                attempt = replace(attempt, seconds=None)
            point = {"args.lr": f"{rate:g}", "args.width": str(width), "args.seed": str(seed)}
            job = str(5000 + len(runs))
            settings = {
                "framework": "command",
                "world_size": str(width // 32),
                "spec file": "a.yaml",
            }
            run = replace(run, job_id=job, point=point, settings=settings, attempts=(attempt,))
            runs.append(run)
    return runs


def hostile_run() -> Run:
    """Texts that would act in a page, a terminal or a reader's eyes, wherever a text can stand."""
    bad = (
        "<script>alert(1)</script>\u202egnp.exe",
        '"><img src=x onerror=alert(2)>',
        "\x1b[31mred\x1b[0m \x00\x07 </style><style>*{display:none}</style>",
        "{{ 7 * 7 }} </textarea> <!-- --> ]]> &lt; javascript:alert(3) \ud800",
    )
    run = short_run()
    attempt = replace(run.attempts[0], reason=bad[1], seconds=100.0)
    assert run.efficiency
    assert run.cost
    return replace(
        run,
        name=bad[0],
        framework=bad[1],
        job_id=bad[2],
        attempts=(attempt,),
        efficiency=replace(run.efficiency, gpu=bad[0], formula=bad[3]),
        cost=replace(run.cost, price=bad[2]),
        no_steady_state=bad[3],
        derived={"loss": bad[0], bad[1]: bad[2]},  # type: ignore[dict-item]
        notes=bad,
        advice=bad,
    )


def _values(
    step: int, seconds: float, batch: int, sequence: int, loss: float
) -> dict[Quantity, float]:
    return {
        "seconds": seconds,
        "samples_per_second": batch / seconds,
        "tokens_per_second": batch * sequence / seconds,
        "loss": loss,
        "learning_rate": 3e-4 * min(1.0, step / 2000) * (0.55 + 0.45 * math.cos(step / 400_000)),
        "grad_norm": 0.4 + 3 / (1 + step / 500) + 0.05 * math.sin(step / 37),
        "memory_gib": 31.2 if step > 300 else 28.9,
    }


def _run(
    name: str,
    windows: list[Window],
    lost: dict[LostTime, float],
    gpus: int,
    nodes: int,
    goodput: float,
) -> Run:
    steady = windows[len(windows) // 2 :]
    quantities: tuple[Quantity, ...] = ("seconds", "samples_per_second", "tokens_per_second")
    rates = {quantity: _spread([one.values[quantity] for one in steady]) for quantity in quantities}
    paid = sum(one.values["seconds"] * (one.steps or 0) for one in windows) + lost.get(
        "starting", 0
    )
    attempt = AttemptPart(
        1,
        "completed",
        paid,
        lost.get("queue"),
        1,
        windows[-1].step,
        None,
        windows[-1].step,
        0,
        {**lost},
    )
    return Run(
        name=name,
        framework="megatron-deepspeed",
        attempts=(attempt,),
        steps=windows[-1].step,
        total_steps=None,
        gpus=gpus,
        nodes=nodes,
        rates=rates,
        no_steady_state="",
        steady_from=steady[0].step,
        mean_samples_per_second=63.5,
        efficiency=Efficiency(
            53.4, 71.2, 0.171, 0.228, 312, "A100-40", "model FLOP: 72 B s l h² (1 + s/6h + V/16lh)"
        ),
        paid_seconds=paid,
        lost_seconds=lost,
        lost_steps=0,
        goodput=goodput,
        cost=Cost(25.3, 16.5, "1 x p4d.24xlarge, us-east-1, $21.96 an hour, list price of 2026-11"),
        skipped_steps=15,
        peak_memory_gib=31.2,
        windows=tuple(windows),
        derived={"tokens_per_second": "samples/s x sequence"},
        notes=(
            "The first 11 windows waited for their data: forward took up to 9.4 s, backward 0.2 s.",
        ),
        advice=(
            "Waiting for data cost 1,860 s: start more workers for loading, or stage the data.",
        ),
        job_id="4711",
    )


def _spread(values: list[float]) -> Spread:
    ordered = sorted(values)
    low, middle, high = (ordered[len(ordered) * tenth // 10] for tenth in (1, 5, 9))
    return Spread(middle, low, high, sum(ordered) / len(ordered), len(ordered))
