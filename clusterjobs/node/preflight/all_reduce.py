"""How fast all ranks add up numbers, held against what the network of these nodes should give.

    all_reduce.py GBPS PERCENT SECONDS    as a task for each rank

The only program for the nodes that needs more than Python's own library: torch, for it measures
what the training will use (NCCL on GPUs, gloo without). GBPS is what the network of one node gives,
0 where nobody knows; below PERCENT of that the exit code is `FAILED`.

The rate is nccl-tests' bus bandwidth (its doc/PERFORMANCE.md): 2 (n - 1) / n x bytes / seconds,
which in a ring is what goes through a node's network, however many ranks the node has.
"""

from __future__ import annotations

import datetime
import importlib
import os
import sys
import time

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

FAILED = 69  # as the preflight's own
IS_LAB = os.path.exists("/.lab/lab.json")  # whose nodes have this machine's memory as a network
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
    fastest = min(measured(torch, torch.zeros(size // 4, device=device)))
    torch.distributed.destroy_process_group()
    gbps = 2 * (ranks - 1) / ranks * size * 8 / fastest / 1e9
    return judged(gbps, expected, percent, ranks, nodes) if rank == 0 else 0


def measured(torch: Any, data: Any) -> list[float]:
    """Seconds of each run but the first, which makes the connections."""
    found = []
    for _ in range(RUNS + 1):
        torch.distributed.barrier()
        start = time.perf_counter()
        torch.distributed.all_reduce(data)
        if data.is_cuda:
            torch.cuda.synchronize()
        found.append(time.perf_counter() - start)
    return found[1:]


def judged(gbps: float, expected: float, percent: float, ranks: int, nodes: int) -> int:
    """Says what was measured and what that means for a training."""
    head = f"clusterjobs: all-reduce of {ranks} ranks on {nodes} nodes: {gbps:.3g} Gbps"
    each = 2 * (ranks - 1) / ranks * 16  # Gbit through a node: 10^9 gradients of two bytes
    meaning = f"a step adds up the gradients of 10^9 parameters in {each / gbps:.2g} s"
    if not expected:
        print(f"{head}; what this network should give is not known; {meaning}")
        return 0
    print(f"{head}, {expected:g} expected; {meaning}, and not in {each / expected:.2g} s")
    if 100 * gbps >= percent * expected:
        return 0
    if IS_LAB:
        print("clusterjobs: this is a lab: its network is no fault")
        return 0
    print(
        f"clusterjobs: preflight failed: the network gives {100 * gbps / expected:.2g} % of that; "
        f"wanted: {percent:g} %; {nodes} nodes may well be slower than one"
    )
    return FAILED


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
