"""Measure an all-reduce of all ranks, and compare it with the bandwidth of the nodes' network.

    all_reduce.py GBPS PERCENT SECONDS    one task per rank

This program needs torch, because it measures what the training will use: NCCL on GPUs, gloo
without. GBPS is the bandwidth of one node, 0 if unknown; below PERCENT of it the exit code is
`FAILED`. A rank that waits longer than SECONDS fails.

The rate is the bus bandwidth of nccl-tests (its doc/PERFORMANCE.md): 2 (n - 1) / n x bytes /
seconds. In a ring this is the traffic of a node's network, whatever its number of ranks.
"""

from __future__ import annotations

import datetime
import importlib
import os
import sys
import time
from typing import Any

FAILED = 69  # as in preflight.py
IS_LAB = os.path.exists("/.lab/lab.json")  # the network of a lab is the memory of one machine
GPU_BYTES, CPU_BYTES = 2**30, 2**25
RUNS = 5


def main(words: list[str]) -> int:
    expected, percent, seconds = (float(word) for word in words)
    torch: Any = importlib.import_module("torch")
    rank, ranks = int(os.environ["SLURM_PROCID"]), int(os.environ["SLURM_NTASKS"])
    nodes = int(os.environ["SLURM_STEP_NUM_NODES"])
    has_gpus = torch.cuda.is_available()
    device = f"cuda:{os.environ['SLURM_LOCALID']}" if has_gpus else "cpu"
    if has_gpus:
        torch.cuda.set_device(device)
    torch.distributed.init_process_group(
        "nccl" if has_gpus else "gloo",
        init_method=f"tcp://{os.environ['MASTER_ADDR']}:{os.environ['MASTER_PORT']}",
        rank=rank,
        world_size=ranks,
        timeout=datetime.timedelta(seconds=seconds),
    )
    size = GPU_BYTES if has_gpus else CPU_BYTES
    fastest = min(measure(torch, torch.zeros(size // 4, device=device)))
    torch.distributed.destroy_process_group()
    gbps = 2 * (ranks - 1) / ranks * size * 8 / fastest / 1e9
    return judge(gbps, expected, percent, ranks, nodes) if rank == 0 else 0


def measure(torch: Any, data: Any) -> list[float]:
    """Seconds of each run, without the first one, which makes the connections."""
    seconds = []
    for _ in range(RUNS + 1):
        torch.distributed.barrier()
        start = time.perf_counter()
        torch.distributed.all_reduce(data)
        if data.is_cuda:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    return seconds[1:]


def judge(gbps: float, expected: float, percent: float, ranks: int, nodes: int) -> int:
    """Print the result and what it means for a training, and return the exit code."""
    head = f"clusterjobs: all-reduce of {ranks} ranks on {nodes} nodes: {gbps:.3g} Gbps"
    gbits = 2 * (ranks - 1) / ranks * 16  # of a node, for 10^9 gradients of two bytes
    meaning = f"reducing the gradients of 10^9 parameters takes {gbits / gbps:.2g} s"
    if not expected:
        print(f"{head}; the bandwidth of this network is unknown; {meaning}")
        return 0
    print(f"{head}, {expected:g} expected; {meaning} instead of {gbits / expected:.2g} s")
    if 100 * gbps >= percent * expected:
        return 0
    if IS_LAB:
        print("clusterjobs: this is a lab: a slow network is no fault")
        return 0
    print(
        f"clusterjobs: preflight failed: the network gives {100 * gbps / expected:.2g} % of that; "
        f"wanted: {percent:g} %; {nodes} nodes may be slower than one"
    )
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
