"""What the command line of advise asks for, checked."""

import math
from typing import NamedTuple

import click

from clusterjobs.errors import one_problem
from clusterjobs.models.gpus import find_gpu
from clusterjobs.models.records import Gpu

MOST_NODES, MOST_NUMBERS = 16_384, 64
PER_NODE, GBPS = 8, 400.0


class Hardware(NamedTuple):
    """GPUs without a cluster."""

    gpu: Gpu
    gpus: int
    per_node: int
    gbps: float


class Request(NamedTuple):
    """The options of one call, checked."""

    by_cost: bool
    nodes: tuple[int, ...]
    clusters: tuple[str, ...]
    hardware: Hardware | None
    top: int


def parse_request(
    by: str,
    nodes: str | None,
    clusters: str | None,
    gpu: str | None,
    gpus: int | None,
    per_node: int | None,
    gbps: float | None,
    top: int,
) -> Request:
    """Raises UsageError for options that do not belong together, and InputError for values."""
    if gpu is None and any(one is not None for one in (gpus, per_node, gbps)):
        raise click.UsageError("--gpus, --gpus-per-node, --fabric-gbps: only with --gpu")
    if gpu and clusters:
        raise click.UsageError("--gpu, --clusters: choose one of them")
    if gpu and nodes:
        raise click.UsageError("--gpu, --nodes: --gpus gives the number")
    named = tuple(one.strip() for one in clusters.split(",")) if clusters is not None else ()
    if "" in named:
        raise click.UsageError("--clusters: a name is empty, write p4d-a100,p5-h100")
    hardware = _hardware(gpu, gpus, per_node, gbps) if gpu is not None else None
    return Request(by == "cost", _numbers(nodes), named, hardware, top)


def _hardware(name: str, gpus: int | None, per_node: int | None, gbps: float | None) -> Hardware:
    gpu = find_gpu(name)
    if gpu is None or name.partition("-")[2] not in ("", f"{gpu.memory_gib:g}"):
        raise one_problem(
            f"--gpu: {name} is unknown",
            hint="write its name and GiB: V100-32, A100-40, A100-80, H100-80, H200-141, B200-180",
        )
    if gpus is None:
        raise click.UsageError("--gpu needs --gpus, how many: --gpu A100-80 --gpus 64")
    size = per_node or min(PER_NODE, gpus)
    if gpus % size:
        what = f"--gpus: {gpus} is not a multiple of the {size} GPUs of a node"
        raise one_problem(what, hint=f"--gpus {gpus // size * size or size}, or --gpus-per-node")
    rate = GBPS if gbps is None else gbps
    if not (math.isfinite(rate) and 0 < rate <= 100_000):
        hint = "Gbit/s of a node's network, for example 400"
        raise one_problem(f"--fabric-gbps: {rate:g} is no rate", hint=hint)
    return Hardware(gpu, gpus, size, rate)


def _numbers(text: str | None) -> tuple[int, ...]:
    if text is None:
        return ()
    parts = [one.strip() for one in text.split(",")]
    is_valid = all(one.isascii() and one.isdigit() and len(one) < 7 for one in parts)
    numbers = tuple(map(int, parts)) if is_valid else (0,)
    if not all(1 <= one <= MOST_NODES for one in numbers) or len(numbers) > MOST_NUMBERS:
        raise one_problem(
            f"--nodes: {text[:80]!r} is no list of numbers of nodes",
            hint=f"up to {MOST_NUMBERS} numbers from 1 to {MOST_NODES:,}: --nodes 4,8,16",
        )
    return numbers
