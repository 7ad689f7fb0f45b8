"""The constants that were fitted to published measurements, and those taken from elsewhere.

The numbers are dated data (constants.json); here are their names, meanings and units.
"""

import functools
import json
import pathlib
from typing import Any, NamedTuple

from clusterjobs.models.records import Range

DATA_FILE = pathlib.Path(__file__).with_name("constants.json")


class Constants(NamedTuple):
    """Shares are of a data sheet's number; dictionaries have a value for each family of GPUs."""

    products: dict[str, float]  # share of the 16-bit peak that large matrix products reach
    products_fp8: dict[str, float]  # the same of the fp8 peak; attention and head are in 16 bit
    flash: dict[str, float]  # share of the peak that flash attention reaches
    # Not fitted with the others: measured by modelled time of routing, exchange and small products.
    experts: dict[str, float]
    flash_eager: float  # the same on Hopper with FlashAttention 2, which FSDP and DeepSpeed use
    elementwise: float  # bytes of elementwise traffic for each token and hidden unit of a pass
    unfused: float  # bytes of memory traffic for each attention score of a pass
    fixed: float  # seconds that a layer's forward pass takes beside its work; twice that backward
    network: float  # share of a node's line rate
    nvlink: float  # share of NVLink's rate
    overlap: float  # share of data-parallel traffic hidden behind computing, recent software
    overlap_sharded: float  # not fitted: of FSDP's, which fetches the next layer's weights
    overlap_old: float  # the same for Megatron before 2023, DDP and DeepSpeed
    tensor_overlap: float  # share of tensor-parallel traffic hidden by Megatron-Core and JAX
    messages_overlap: float  # share of the messages between pipeline stages that is hidden
    ring_latency: float  # seconds for each hop of a ring over nodes
    step: float  # seconds of a step beside all else


@functools.cache
def fitted_constants() -> Constants:
    return Constants(**_data()["values"])


@functools.cache
def range_factors(trust: str) -> Range:
    """Measured by predicted: what holds 80 % of rows; a factor of two for a guess."""
    low, high = _data()["ranges"][trust]
    return Range(low, 1.0, high)


@functools.cache
def _data() -> dict[str, Any]:
    data: dict[str, Any] = json.loads(DATA_FILE.read_text(encoding="utf-8"))
    return data
