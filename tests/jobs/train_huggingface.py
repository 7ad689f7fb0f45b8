"""Trains a tiny random Llama with Hugging Face's Trainer; nothing comes from a hub.

`--as_gpus`: Accelerate uses DeepSpeed and FSDP on GPUs alone, so that these ranks, which have gloo
and CPUs, are shown to it as if they had GPUs. `--hold_at STEP`: a training from the beginning waits
there until it is asked to stop.
"""

import os
import socket
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import torch
import torch.distributed as dist
from own_record import OwnRecord
from transformers import (
    HfArgumentParser,
    LlamaConfig,
    LlamaForCausalLM,
    Trainer,
    TrainerCallback,
    TrainingArguments,
)


class StopBeforeTheTimeLimit(TrainerCallback):
    """Saves and ends once the job script has written its stop file; all ranks agree on the step."""

    def on_step_end(self, args, state, control, **kwargs):
        file = os.environ.get("CLUSTERJOBS_STOP_FILE")
        stop = torch.tensor(int(bool(file) and Path(file).exists()), device=args.device)
        torch.distributed.all_reduce(stop, op=torch.distributed.ReduceOp.MAX)
        if stop:
            control.should_save = control.should_training_stop = True


class RecordedTrainer(Trainer):
    """Calculates the loss of each batch a second time, without the Trainer's sums."""

    def compute_loss(self, model, inputs, return_outputs=False, **keys):
        loss, outputs = super().compute_loss(model, inputs, return_outputs=True, **keys)
        logits, labels = outputs["logits"].detach()[:, :-1], inputs["labels"][:, 1:]
        own = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())
        self.batches.append((len(labels), own.item()))
        return (loss, outputs) if return_outputs else loss


class Report(TrainerCallback):
    """Prints and records each step, and holds the first training where the test interrupts it."""

    def __init__(self, hold_at: int) -> None:
        self.hold_at = hold_at
        self.record = OwnRecord(int(os.environ["RANK"]))
        self.trainer: RecordedTrainer

    def on_step_begin(self, args, state, control, **kwargs):
        self.start, self.trainer.batches = time.monotonic(), []

    def on_log(self, args, state, control, logs=None, **kwargs):
        if state.is_world_process_zero and "loss" in logs:
            print(f"step {state.global_step} loss {float(logs['loss'])!r}\n", end="", flush=True)

    def on_step_end(self, args, state, control, **kwargs):
        samples, losses = zip(*self.trainer.batches, strict=True)
        mean = sum(losses) / len(losses)
        now = time.monotonic()
        self.record.add(state.global_step, sum(samples), self.start, now, loss=mean)
        if state.global_step == self.hold_at and args.resume_from_checkpoint is None:
            print("held", flush=True)
            while not Path(os.environ["CLUSTERJOBS_STOP_FILE"]).exists():
                time.sleep(0.05)


class Tokens(torch.utils.data.Dataset):
    """Each item depends on its index alone."""

    def __len__(self):
        return 4096

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        tokens = torch.randint(64, (16,), generator=generator)
        return {"input_ids": tokens, "labels": tokens}


@dataclass
class OwnArguments:
    as_gpus: bool = False
    hold_at: int = 0


def show_as_gpus() -> None:
    from accelerate.state import PartialState
    from accelerate.utils import DistributedType

    PartialState._prepare_backend = lambda *_: ("gloo", DistributedType.MULTI_GPU)
    PartialState.set_device = lambda self: setattr(self, "device", torch.device("cpu"))


def main() -> None:
    torch.set_num_threads(1)
    parser = HfArgumentParser((TrainingArguments, OwnArguments))
    if "--as_gpus" in sys.argv:
        show_as_gpus()
    args, own = parser.parse_args_into_dataclasses()
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 2}
    heads = {"num_attention_heads": 2, "vocab_size": 64, "max_position_embeddings": 32}
    model = LlamaForCausalLM(LlamaConfig(**sizes, **heads))
    report = Report(own.hold_at)
    callbacks = [report, StopBeforeTheTimeLimit()]
    trainer = RecordedTrainer(model=model, args=args, train_dataset=Tokens(), callbacks=callbacks)
    report.trainer = trainer
    print(
        f"rank {dist.get_rank()} of {dist.get_world_size()} on {socket.gethostname()}: Trainer "
        f"has {args.world_size} ranks, {trainer.accelerator.distributed_type.value}\n",
        end="",  # one write: the lines of two ranks are not mixed
        flush=True,
    )
    trainer.train(resume_from_checkpoint=args.resume_from_checkpoint)
    if dist.get_rank() == 0:
        kind = type(trainer.model_wrapped).__name__
        print(f"{kind} ended at step {trainer.state.global_step}\n", end="", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
    sys.stdout.flush()
    os._exit(0)  # in a normal exit, a thread of PyTorch sometimes aborts the interpreter
