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

FOLDER, STEPS, HOLD_AT = pathlib.Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
STATE = FOLDER / "state"


def batch(step, part, accelerator):
    key = (step * accelerator.gradient_accumulation_steps + part) * accelerator.num_processes
    generator = torch.Generator().manual_seed(key + accelerator.process_index)
    return torch.randn(4, 8, generator=generator)


def train_step(model, optimizer, accelerator, step):
    total = 0.0
    for part in range(accelerator.gradient_accumulation_steps):
        with accelerator.accumulate(model):
            loss = (model(batch(step, part, accelerator)) - 1).square().mean()
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        total += accelerator.reduce(loss.detach(), "mean").item()
    return total / accelerator.gradient_accumulation_steps


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
    while done < STEPS:
        loss = train_step(model, optimizer, accelerator, done)
        done += 1
        if accelerator.is_main_process:
            print(f"step {done} loss {loss!r}\n", end="", flush=True)
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
