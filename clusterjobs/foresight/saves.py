"""The size of a checkpoint, the time to save one, and the best interval between two.

Bytes and seconds. Knows no spec and no file system's name.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from clusterjobs.foresight.records import Layout, Range
from clusterjobs.foresight.states import MOMENTS

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
    return parameters * (per - _moments_saved(layout.optimizer))


def _moments_saved(optimizer: str) -> float:
    """Bytes a parameter that an optimizer keeps less than Adam's two fp32 moments."""
    return 8.0 - MOMENTS.get(optimizer, 8.0)


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
