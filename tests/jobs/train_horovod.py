"""A small training by Horovod, as its guide to PyTorch writes it; rank 0 keeps the checkpoint."""

import argparse
import os
import pathlib
import socket
import time

import horovod.torch as hvd
import torch
from own_record import OwnRecord


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--base-lr", type=float, default=0.01)
    parser.add_argument("--save", required=True)
    parser.add_argument("--fail", type=int, default=-1)
    parser.add_argument("--endless", action="store_true")
    options = parser.parse_args()
    hvd.init()
    rank = hvd.rank()
    print(f"rank {rank} of {hvd.size()}, {hvd.local_rank()} on {socket.gethostname()}")
    print(f"interface {os.environ.get('HOROVOD_GLOO_IFACE')}, note {os.environ.get('NOTE')!r}")
    torch.manual_seed(rank)  # different on purpose: rank 0's weights must win
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=options.base_lr * hvd.size())
    optimizer = hvd.DistributedOptimizer(optimizer, named_parameters=model.named_parameters())
    hvd.broadcast_parameters(model.state_dict(), root_rank=0)
    record = OwnRecord(rank)
    if rank == 0:
        print(f"Number of CPUs: {hvd.size()}")
    wanted = torch.tensor([[1.0], [2.0], [3.0], [4.0]])
    step = 0
    while step < options.steps or options.endless:
        started = time.monotonic()
        batch = torch.randn(16, 4)
        loss = torch.nn.functional.mse_loss(model(batch), batch @ wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        step += 1
        record.add(step, len(batch), started, time.monotonic(), loss=loss.item())
        if step == 5 and rank == options.fail:
            os._exit(17)
        if step == 10:
            pathlib.Path(options.save, f"{rank}.stepped").write_text("")
        if rank == 0 and (step % 10 == 0) and not options.endless:
            speed = 16 / (time.monotonic() - started)
            print(f"Iter #{step}: {speed:.1f} img/sec per CPU")
    everybody = hvd.allgather(torch.cat([p.detach().flatten() for p in model.parameters()])[None])
    print(f"rank {rank} sees {len(everybody)} ranks, same weights: {same(everybody)}")
    if rank == 0:
        torch.save(model.state_dict(), pathlib.Path(options.save, "model.pt"))


def same(weights: torch.Tensor) -> bool:
    return bool((weights == weights[0]).all())


if __name__ == "__main__":
    main()
