"""Trains a small byte-level GPT on the text beside this file, with DeepSpeed or with plain PyTorch.

Runs once per rank, and works with any launcher that sets RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR
and MASTER_PORT. A batch depends only on the seed, the step and the rank. A resumed run therefore
has the same losses as a run without interruption, bit for bit on CPUs.
"""

import argparse
import json
import os
import signal
import socket
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from checkpoints import Checkpoints
from model import GPT
from torch import Tensor
from trainers import DeepSpeedTrainer, PlainTrainer, Trainer

TEXT = Path(__file__).with_name("text.txt")


def draw_batch(text: Tensor, args: argparse.Namespace, size: int, micro_step: int) -> list[Tensor]:
    key = f"{args.seed} {micro_step} {dist.get_rank()}"
    generator = torch.Generator().manual_seed(int.from_bytes(key.encode(), "big") % 2**61)
    starts = torch.randint(len(text) - args.sequence, (size,), generator=generator)
    windows = torch.stack([text[start : start + args.sequence + 1] for start in starts]).long()
    return [windows[:, :-1], windows[:, 1:]]


def join_process_group() -> torch.device:
    missing = {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"} - set(os.environ)
    if missing:
        sys.exit(f"train.py: not set by the launcher: {', '.join(sorted(missing))}")
    env = os.environ
    print(
        f"rank {env['RANK']} of {env['WORLD_SIZE']}: local rank {env['LOCAL_RANK']} on "
        f"{socket.gethostname()}, master {env['MASTER_ADDR']}:{env['MASTER_PORT']}",
        flush=True,
    )
    if torch.cuda.is_available():
        torch.cuda.set_device(int(env["LOCAL_RANK"]))
        dist.init_process_group("nccl")
        return torch.device("cuda")
    torch.set_num_threads(1)  # several ranks share a CPU
    dist.init_process_group("gloo")
    return torch.device("cpu")


def record_signals() -> list[int]:
    """Return a list that collects received signals, such as SIGTERM when the job is cancelled."""
    received: list[int] = []
    for number in (signal.SIGUSR1, signal.SIGTERM):
        signal.signal(number, lambda signum, _frame: received.append(signum))
    return received


def stop_file_exists() -> bool:
    """The job script creates this file when the time limit is near. Unset or empty: no file."""
    stop_file = os.environ.get("CLUSTERJOBS_STOP_FILE")
    return bool(stop_file) and Path(stop_file).exists()


def train_step(
    trainer: Trainer, text: Tensor, args: argparse.Namespace, step: int, device: torch.device
) -> Tensor:
    """One step of the optimizer, over all accumulated micro-batches; returns this rank's loss."""
    loss = torch.zeros((), device=device)
    for micro_step in range(step * trainer.accumulation, (step + 1) * trainer.accumulation):
        batch = draw_batch(text, args, trainer.micro_batch, micro_step)
        loss += trainer.train(*(part.to(device) for part in batch)) / trainer.accumulation
    return loss


def run(args: argparse.Namespace, device: torch.device) -> int:
    """Trains to the last step, or until a request to stop; returns the exit code."""
    received = record_signals()
    torch.manual_seed(args.seed)
    model = GPT(args.layers, args.hidden, args.heads, args.sequence).to(device)
    trainer = DeepSpeedTrainer(model, args) if args.deepspeed else PlainTrainer(model, args)
    text = torch.frombuffer(bytearray(TEXT.read_bytes()), dtype=torch.uint8)
    checkpoints = Checkpoints(args.checkpoint_dir)
    first = checkpoints.load(trainer, device)
    rank, world = dist.get_rank(), dist.get_world_size()
    samples_per_step = world * trainer.micro_batch * trainer.accumulation
    if first and rank == 0:
        print(f"resuming after step {first} from {args.checkpoint_dir}", flush=True)

    logged, since = first, time.perf_counter()
    for done in range(first + 1, args.steps + 1):
        loss = train_step(trainer, text, args, done - 1, device)
        # One all-reduce for the mean loss and for the requests to stop that any rank has seen.
        requests = torch.tensor([float(bool(received)), float(stop_file_exists())], device=device)
        sums = torch.cat([loss.reshape(1), requests])
        dist.all_reduce(sums)
        loss_sum, signals, stop_files = sums.tolist()
        mean, last = loss_sum / world, done == args.steps
        stopping = bool(signals or stop_files) and not last
        if rank == 0 and (done % args.log_every == 0 or done == first + 1 or last):
            rate = samples_per_step * (done - logged) / (time.perf_counter() - since)
            print(f"step {done}/{args.steps} loss {mean:.3f} samples/s {rate:.1f}", flush=True)
            logged, since = done, time.perf_counter()
            if last and (result := os.environ.get("CLUSTERJOBS_RESULT")):  # of a sweep's point
                Path(result).write_text(json.dumps({"loss": round(mean, 3)}), encoding="utf-8")
        if stopping or last or (args.save_every and done % args.save_every == 0):
            checkpoints.save(trainer, done)
        if stopping:
            if rank == 0:
                print(f"asked to stop: saved step {done}", flush=True)
            return 128 + (received[0] if received else signal.SIGTERM) if signals else 0
    return 0


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--hidden", type=int, default=128)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--sequence", type=int, default=64)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--micro-batch", type=int, default=8, help="without DeepSpeed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--save-every", type=int, default=50, help="0: only at the end")
    parser.add_argument("--checkpoint-dir", type=Path, default=Path("checkpoints"))
    parser.add_argument("--log-every", type=int, default=10)
    parser.add_argument("--deepspeed", action="store_true")
    parser.add_argument("--deepspeed_config", type=Path, metavar="FILE")
    # Added by the launchers `deepspeed` and `torch.distributed.launch`; LOCAL_RANK is used instead.
    parser.add_argument("--local_rank", "--local-rank", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.deepspeed and not args.deepspeed_config:
        parser.error("--deepspeed needs --deepspeed_config FILE")
    return args


def main() -> int:
    args = parse_args()
    device = join_process_group()
    try:
        return run(args, device)
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    os._exit(code)  # in a normal exit, a thread of PyTorch sometimes aborts the interpreter
