"""In place of Megatron-LM's pretrain_gpt.py: a tiny GPT of megatron-core, on CPUs with gloo.

Megatron-LM's own loop insists on CUDA. This one reads the same arguments (the flags of the table,
and no others), divides the ranks by megatron-core, saves and resumes as Megatron-LM does, and ends
by its signal handler. Each rank writes down its groups in --tensorboard-dir.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import signal
import sys
import time

import torch
from megatron.core import parallel_state
from megatron.core.models.gpt import GPTModel
from megatron.core.models.gpt.gpt_layer_specs import get_gpt_layer_local_spec
from megatron.core.tensor_parallel.random import CudaRNGStatesTracker
from own_record import OwnRecord
from torch import distributed

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "frameworks"))

from megatron_core_program import config_of, read, steps_of

# What megatron-core asks CUDA for, even on gloo: the device of its buffers, and random states.
torch.cuda.current_device = lambda: torch.device("cpu")
CudaRNGStatesTracker.fork = lambda self, name="": contextlib.nullcontext()
ON_CPUS = {
    "use_cpu_initialization": True,
    "hidden_dropout": 0.0,
    "attention_dropout": 0.0,
    "masked_softmax_fusion": False,
    "bias_dropout_fusion": False,
}
VOCABULARY = 64
PAUSE = 6  # the first attempt waits in this iteration until it is told to end, if it can be told


def main() -> None:
    given = read(sys.argv[1:])
    told: list[int] = []
    if given.get("exit_signal_handler"):
        signal.signal(signal.SIGTERM, lambda *_: told.append(1))
    distributed.init_process_group("gloo")
    parallel_state.initialize_model_parallel(
        given["tensor_model_parallel_size"],
        given["pipeline_model_parallel_size"],
        context_parallel_size=given.get("context_parallel_size", 1),
    )
    write_down(pathlib.Path(given["tensorboard_dir"]))
    torch.manual_seed(1)
    model = GPTModel(
        config_of(given, **ON_CPUS), get_gpt_layer_local_spec(), VOCABULARY, given["seq_length"]
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=given["lr"])
    first = load(given, model) + 1
    record, since = OwnRecord(distributed.get_rank()), time.perf_counter()
    samples = given["global_batch_size"] / distributed.get_world_size()
    for iteration in range(first, given["train_iters"] + 1):
        with record.step(iteration, samples) as row:
            loss = row["loss"] = train(given, model, optimizer, iteration)
        if distributed.get_rank() == distributed.get_world_size() - 1:
            milliseconds = (time.perf_counter() - since) * 1000
            print(line(given, iteration, loss, milliseconds), flush=True)
            since = time.perf_counter()
        waits = iteration == PAUSE and os.environ.get("CLUSTERJOBS_ATTEMPT") == "1"
        while waits and given.get("exit_signal_handler") and not told:
            time.sleep(0.05)
        ends = torch.tensor(len(told))
        distributed.all_reduce(ends, op=distributed.ReduceOp.MAX)
        if ends or iteration % given["save_interval"] == 0:
            save(given, model, iteration)
        if ends:
            return


def write_down(folder: pathlib.Path) -> None:
    """Which ranks this one shares its tensors with, and which have another copy of them."""
    groups = {
        "tensor": parallel_state.get_tensor_model_parallel_group(),
        "data": parallel_state.get_data_parallel_group(),
    }
    found = {name: distributed.get_process_group_ranks(one) for name, one in groups.items()}
    record = {"groups": found, "arguments": sys.argv[1:], "WORLD_SIZE": os.environ["WORLD_SIZE"]}
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{distributed.get_rank()}.json").write_text(json.dumps(record))


def train(given: dict, model: GPTModel, optimizer: torch.optim.Optimizer, iteration: int) -> float:
    """One step; its loss is the mean over all samples of the global batch."""
    length, copies = given["seq_length"], parallel_state.get_data_parallel_world_size()
    steps = steps_of(given, copies)
    own = parallel_state.get_data_parallel_rank()
    random = torch.Generator().manual_seed(iteration)
    shape = (copies, steps, given["micro_batch_size"], length)
    samples = torch.randint(VOCABULARY, shape, generator=random)
    positions = torch.arange(length).expand(given["micro_batch_size"], length)
    mask = torch.triu(torch.ones(1, 1, length, length), 1).bool()
    optimizer.zero_grad()
    total = torch.zeros(())
    for tokens in samples[own]:
        loss = model(tokens, positions, mask, labels=(tokens + 1) % VOCABULARY).mean() / steps
        loss.backward()
        total += loss.detach()
    group = parallel_state.get_data_parallel_group()
    for tensor in (total, *(one.grad for one in model.parameters() if one.grad is not None)):
        distributed.all_reduce(tensor, group=group)
        tensor /= copies
    optimizer.step()
    return total.item()


def line(given: dict, iteration: int, loss: float, milliseconds: float) -> str:
    """The line of training.py's training_log."""
    batch = given["global_batch_size"]
    return (
        f" [2026-11-22 00:00:00.000000] iteration {iteration:8d}/{given['train_iters']:8d} |"
        f" consumed samples: {iteration * batch:12d} |"
        f" elapsed time per iteration (ms): {milliseconds:.1f} |"
        f" learning rate: {given['lr']:.6E} | global batch size: {batch:5d} |"
        f" lm loss: {loss:.6E} | loss scale: 1.0 | grad norm: 1.000 |"
        " number of skipped iterations:   0 | number of nan iterations:   0 |"
    )


def part_of(folder: pathlib.Path, iteration: int) -> pathlib.Path:
    rank = parallel_state.get_tensor_model_parallel_rank()
    return folder / f"iter_{iteration:07d}" / f"mp_rank_{rank:02d}.pt"


def save(given: dict, model: GPTModel, iteration: int) -> None:
    """Each part once, then the tracker that names the iteration."""
    folder = pathlib.Path(given["save"])
    if parallel_state.get_data_parallel_rank() == 0:
        part = part_of(folder, iteration)
        part.parent.mkdir(parents=True, exist_ok=True)
        torch.save(
            {key: value for key, value in model.state_dict().items() if value is not None}, part
        )
    distributed.barrier()
    if distributed.get_rank() == 0:
        tracker = folder / "latest_checkpointed_iteration.txt"
        tracker.with_suffix(".new").write_text(str(iteration))
        tracker.with_suffix(".new").replace(tracker)
    distributed.barrier()


def load(given: dict, model: GPTModel) -> int:
    """The iteration of the newest checkpoint, which is loaded; 0 if there is none."""
    folder = pathlib.Path(given["load"])
    tracker = folder / "latest_checkpointed_iteration.txt"
    iteration = int(tracker.read_text()) if tracker.exists() else 0
    if iteration:
        model.load_state_dict(torch.load(part_of(folder, iteration)), strict=False)
        print(f"loaded checkpoint at iteration {iteration}", flush=True)
    return iteration


if __name__ == "__main__":
    main()
