"""From the time of a step to the time of a training: steps, start, saves, failures, requeues.

Times in seconds, sizes in bytes.
"""

import math
from typing import NamedTuple

from clusterjobs.foresight.formulas.memory_parts import MOMENTS
from clusterjobs.models.records import Layout, Range
from clusterjobs.sites.prices import HourlyPrice

GIB = 2**30
# If nothing is known of the file system, in bytes/s: from an NFS server to a parallel file system.
# BLOOM's wrote 2.3 TB in 40 s.
ASSUMED_RATE = Range(0.5e9, 2e9, 20e9)
ASSUMED_NOTE = "assumed: the file system writes 0.5 to 20 GB/s"
# The share of a file system's or network's nominal rate that a save reaches.
SHARE = Range(0.3, 0.6, 1.0)


class Saves(NamedTuple):
    """A training's checkpoints. `interval_seconds`: None if the interval is unknown.

    `best_interval`: the one that loses least time. `rate_note`: where the writing rate comes from.
    """

    gib: float
    save_seconds: Range
    interval_steps: int | None
    interval_seconds: Range | None
    best_interval: Range
    rate_note: str

    @property
    def is_rate_known(self) -> bool:
        return self.rate_note != ASSUMED_NOTE


def checkpoint_bytes(parameters: float, layout: Layout) -> float:
    """Weights and optimizer states of the whole model.

    Mixed precision with Adam: 2 + 12 bytes a parameter (Megatron, NeMo and DeepSpeed; published
    sizes of Llama-3.1-8B, Nemotron and 175B agree within 4 %). FSDP saves fp32 weights and two
    moments: 12 (llm-foundry's mpt-30b: 336 GiB).
    """
    if layout.precision == "pure_bf16":
        per = 6.0
    elif layout.engine in ("fsdp", "fairscale") or layout.precision == "fp32":
        per = 12.0
    else:
        per = 14.0
    lighter = 8.0 - MOMENTS.get(layout.optimizer, 8.0)  # than Adam's two fp32 moments
    return parameters * (per - lighter)


def save_seconds(
    size: float, nodes: int, network_gbps: float | None, disk_bytes_per_s: float | None
) -> tuple[Range, str]:
    """Seconds to write a checkpoint, and where the rate comes from.

    All nodes write at the same time, so the file system or the nodes' networks limit it.
    """
    limits = []
    if disk_bytes_per_s:
        limits.append((disk_bytes_per_s, "the file system's throughput"))
    if network_gbps and disk_bytes_per_s:
        limits.append((nodes * network_gbps / 8 * 1e9, "the network of the nodes"))
    if not limits:
        return ASSUMED_RATE.inverse(size), ASSUMED_NOTE
    rate, name = min(limits)
    return SHARE.times(rate).inverse(size), name


def best_interval(save: Range, between_failures: Range) -> Range:
    """Young's first-order optimum, sqrt(2 · save · mean time between failures).

    Source: J. W. Young 1974; J. T. Daly 2006, whose higher-order terms matter only where a save
    takes a good part of the time between failures.
    """
    low, mid, high = (
        math.sqrt(2 * one * mean) for one, mean in zip(save, between_failures, strict=True)
    )
    return Range(low, mid, high)


def loss_share(save: float, interval: float, between_failures: float) -> float:
    """The share of the time that goes into saves and into repeating steps after failures."""
    return save / interval + interval / 2 / between_failures


# From the script's start to the first step: environment, imports, NCCL, data index. No published
# row has it.
START_SECONDS = Range(120.0, 300.0, 900.0)
START_NOTE = "a start takes 2 to 15 min"


class Failures(NamedTuple):
    """How often hardware and software fail, in GPU-hours per unexpected stop."""

    gpu_hours: Range
    short: str
    source: str

    def mean_seconds(self, gpus: int) -> Range:
        """Mean time between two failures of a job on so many GPUs."""
        return self.gpu_hours.times(3600.0 / gpus)


FAILURES = Failures(
    Range(25_000.0, 51_000.0, 100_000.0),
    "one failure per 51,000 GPU-hours (Llama 3)",
    "one failure per 51,000 GPU-hours (419 in 54 days on 16,384 H100, arXiv 2407.21783); the range "
    "starts at 25,000 (OPT-175B, 992 A100)",
)


class TrainingTime(NamedTuple):
    """A training from its first start to its last checkpoint; `seconds` is the sum of the parts.

    `attempts`: how many time limits it needs; None without a limit. `starts` are those of all
    attempts; `lost` is what failures repeat, and the starts after them.
    """

    steps: int
    seconds: Range
    starts: Range
    training: Range
    saving: Range
    lost: Range
    attempts: Range | None


def training_time(
    steps: int, step_seconds: Range, gpus: int, saves: Saves | None, time_limit: int | None
) -> TrainingTime:
    """The total time; the high end takes the pessimistic end of every part.

    A failure loses half of the interval between checkpoints, and a start (J. T. Daly 2006, first
    order); an unknown interval is taken as the best. Each time limit costs a start; the job saves
    before it, so no step is lost.
    """
    training = step_seconds.times(steps)
    ends = [_end(end, training, gpus, saves, time_limit) for end in range(3)]
    totals = [sum(parts[:4]) for parts in ends]
    ranges = [Range(*values) for values in zip(*ends, strict=True)]
    attempts = ranges[4] if time_limit else None
    return TrainingTime(steps, Range(*totals), ranges[0], ranges[1], ranges[2], ranges[3], attempts)


def _end(
    end: int, training: Range, gpus: int, saves: Saves | None, time_limit: int | None
) -> tuple[float, float, float, float, float]:
    """One end of all parts: start, training, saving, lost, attempts."""
    start, work = START_SECONDS[end], training[end]
    saving = interval = 0.0
    if saves:
        interval = (saves.interval_seconds or saves.best_interval)[end]
        saving = max(1.0, work / interval) * saves.save_seconds[end]
    between = FAILURES.mean_seconds(gpus)[2 - end]  # the high end fails most often
    busy = work + saving
    failures = busy / between
    lost = failures * (min(interval or work, work) / 2 + start)
    attempts = 1.0
    if time_limit:
        # A limit too short for a start and a step never ends; one that is cut there is a warning.
        usable = max(time_limit - start, time_limit / 10)
        attempts = float(max(1, math.ceil((busy + lost) / usable)))
    return attempts * start, work, saving, lost, attempts


# Nodes are billed while they start, and until an idle one is taken down: ParallelCluster's
# ScaledownIdletime, 10 minutes by default.
IDLE_SECONDS = 600


class Cost(NamedTuple):
    """USD, without storage and data traffic."""

    usd: Range
    node_hours: Range
    price: HourlyPrice


def cost_of(seconds: Range, nodes: float, price: HourlyPrice, attempts: Range | None) -> Cost:
    """Nodes x hours x price; each attempt is billed a little longer than it runs."""
    times = attempts or Range(1.0, 1.0, 1.0)
    hours = [(time + IDLE_SECONDS * n) / 3600 for time, n in zip(seconds, times, strict=True)]
    node_hours = Range(*hours).times(nodes)
    return Cost(node_hours.times(price.usd_per_hour), node_hours, price)
