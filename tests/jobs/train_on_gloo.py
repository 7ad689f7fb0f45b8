"""A tiny training on gloo, whose losses depend on all ranks: each has other samples.

Rank 0 appends a line of JSON per step to `trace`. In each of them is `ranks`: the sum of a one from
every rank. `--crash-at`: the last rank ends with exit code 9 before this step, once. `--hold-at`:
all wait before this step until they are asked to save, once.
"""

import argparse
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from own_record import OwnRecord

STOP = pathlib.Path(os.environ["CLUSTERJOBS_STOP_FILE"])


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--steps", type=int, default=30)
    parser.add_argument("--save-every", type=int, default=4)
    parser.add_argument("--crash-at", type=int)
    parser.add_argument("--hold-at", type=int)
    return parser.parse_args()


def save(path: pathlib.Path, content: dict) -> None:
    if dist.get_rank() == 0:
        draft = path.with_suffix(".draft")
        torch.save(content, draft)
        draft.replace(path)
    dist.barrier()


def disturb(args: argparse.Namespace, step: int) -> None:
    """Each of both once in the job's life: a file in the folder remembers it."""
    if step == args.crash_at and dist.get_rank() == dist.get_world_size() - 1:
        crashed = args.folder / "crashed"
        if not crashed.exists():
            crashed.touch()
            sys.stdout.flush()
            os._exit(9)
    if step == args.hold_at and not (args.folder / "held").exists():
        (args.folder / "holding").touch()
        while not STOP.exists():
            time.sleep(0.05)
        dist.barrier()
        (args.folder / "held").touch()


def total(value: float) -> float:
    found = torch.tensor([value], dtype=torch.float64)
    dist.all_reduce(found)
    return found.item()


def main() -> None:
    args = parse_args()
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    path, first = args.folder / "checkpoints" / "newest.pt", 1
    if path.exists():
        kept = torch.load(path)
        model.load_state_dict(kept["model"])
        optimizer.load_state_dict(kept["optimizer"])
        first = kept["step"] + 1
    environment = {name: os.environ[name] for name in ("MASTER_ADDR", "TORCHELASTIC_RUN_ID")}
    who = f"rank-{os.environ.get('SLURM_RESTART_COUNT', '0')}-{first}-{rank}.json"
    told = {"host": os.uname().nodename, "world": world, **environment}
    (args.folder / who).write_text(json.dumps(told))
    print(f"rank {rank} begins at step {first}", flush=True)
    record, since = OwnRecord(rank), time.perf_counter()
    for step in range(first, args.steps + 1):
        disturb(args, step)
        start = time.monotonic()
        samples = torch.randn(4, 8, generator=torch.Generator().manual_seed(1000 * step + rank))
        loss = (model(samples) - samples.sum(1, keepdim=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        for one in model.parameters():  # DistributedDataParallel sums in another order at first
            dist.all_reduce(one.grad)
            one.grad /= world
        optimizer.step()
        line = {"step": step, "loss": total(loss.item()) / world, "ranks": total(1)}
        told = total(STOP.exists()) > 0
        record.add(step, len(samples), start, time.monotonic(), loss=loss.item())
        if rank == 0:
            rate = world * len(samples) / (time.perf_counter() - since)
            print(f"step {step}/{args.steps} loss {line['loss']:.6f} samples/s {rate:.1f}")
            sys.stdout.flush()
            since = time.perf_counter()
            with (args.folder / "trace").open("a") as trace:
                print(json.dumps({**line, "first": first}), file=trace)
        if told or step % args.save_every == 0:
            content = {"model": model.state_dict(), "optimizer": optimizer.state_dict()}
            save(path, {**content, "step": step})
        if told:
            break
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
