"""Trains a small random network in a loop of its own, with Hugging Face's Accelerator.

It stops when the job script asks, and resumes from the state that it has saved last. `hold_at` as
in train_huggingface.py.
"""

import os
import pathlib
import socket
import sys
import time

import torch
import torch.distributed as dist
from accelerate import Accelerator
from own_record import OwnRecord

FOLDER, STEPS, HOLD_AT = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
STATE = FOLDER / "state"


def batch(step, part, accelerator):
    key = (step * accelerator.gradient_accumulation_steps + part) * accelerator.num_processes
    generator = torch.Generator().manual_seed(key + accelerator.process_index)
    return torch.randn(4, 8, generator=generator)


def train_step(model, optimizer, accelerator, step):
    """The mean loss of all ranks, and the samples and the loss of this one."""
    total, losses = 0.0, []
    for part in range(accelerator.gradient_accumulation_steps):
        with accelerator.accumulate(model):
            loss = (model(batch(step, part, accelerator)) - 1).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        losses.append(loss.item())
        total += accelerator.reduce(loss.detach(), "mean").item()
    return total / len(losses), 4 * len(losses), sum(losses) / len(losses)


def wait_for_the_stop_file():
    print("held", flush=True)
    while not pathlib.Path(os.environ["CLUSTERJOBS_STOP_FILE"]).exists():
        time.sleep(0.05)


def main():
    torch.set_num_threads(1)
    accelerator = Accelerator()
    print(
        f"rank {dist.get_rank()} of {dist.get_world_size()} on {socket.gethostname()}: Trainer "
        f"has {accelerator.num_processes} ranks, {accelerator.distributed_type.value}\n",
        end="",  # one write: the lines of two ranks are not mixed
        flush=True,
    )
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
    model, optimizer = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=0.01))
    done = 0
    if (FOLDER / "latest").exists():
        accelerator.load_state(str(STATE))
        done = int((FOLDER / "latest").read_text())
    resumed = done > 0
    record, since = OwnRecord(dist.get_rank()), time.perf_counter()
    while done < STEPS:
        start = time.monotonic()
        loss, samples, own = train_step(model, optimizer, accelerator, done)
        done += 1
        record.add(done, samples, start, time.monotonic(), loss=own)
        if accelerator.is_main_process:
            rate = samples * accelerator.num_processes / (time.perf_counter() - since)
            print(f"step {done} loss {loss!r} samples/s {rate:.1f}\n", end="", flush=True)
            since = time.perf_counter()
        if done == HOLD_AT and not resumed:
            wait_for_the_stop_file()
        stop = torch.tensor(int(pathlib.Path(os.environ["CLUSTERJOBS_STOP_FILE"]).exists()))
        if accelerator.reduce(stop, "sum").item():
            accelerator.save_state(str(STATE))
            accelerator.wait_for_everyone()
            if accelerator.is_main_process:
                (FOLDER / "latest").write_text(str(done))
            break
    accelerator.wait_for_everyone()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # in a normal exit, a thread of PyTorch sometimes aborts the interpreter
