"""Training step and checkpoint, in two versions: plain PyTorch and DeepSpeed."""

import argparse
import os
import warnings
from pathlib import Path

import torch
import torch.distributed as dist
from model import GPT
from torch import Tensor, nn


class PlainTrainer:
    """PyTorch's DistributedDataParallel."""

    def __init__(self, model: GPT, args: argparse.Namespace) -> None:
        self.model = nn.parallel.DistributedDataParallel(model)
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
        self.micro_batch, self.accumulation = args.micro_batch, 1
        # DDP groups the gradients differently after its first pass, and sums them in another order.
        # This extra pass gives a resumed run the same order as an uninterrupted one.
        token = torch.zeros(1, 1, dtype=torch.long, device=next(model.parameters()).device)
        self.model(token, token).backward()

    def train(self, inputs: Tensor, targets: Tensor) -> Tensor:
        loss = self.model(inputs, targets)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        return loss.detach()

    def save(self, folder: Path) -> None:
        if dist.get_rank() == 0:
            state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict()}
            torch.save(state, folder / "state.pt")
        dist.barrier()

    def load(self, folder: Path) -> None:
        device = next(self.model.parameters()).device
        state = torch.load(folder / "state.pt", map_location=device, weights_only=True)
        self.model.load_state_dict(state["model"])
        self.optimizer.load_state_dict(state["optimizer"])


class DeepSpeedTrainer:
    """DeepSpeed's engine: batch sizes, precision and ZeRO come from its configuration file."""

    def __init__(self, model: GPT, args: argparse.Namespace) -> None:
        on_cpu = not torch.cuda.is_available()
        if on_cpu:
            os.environ.setdefault("DS_ACCELERATOR", "cpu")  # avoids a warning about the choice
        import deepspeed

        if on_cpu:
            # At the first start DeepSpeed would silently compile a shared-memory all-reduce, and
            # fail without a compiler and ninja. Without compatible ops it uses gloo's instead.
            deepspeed.ops.__compatible_ops__ = {}
        # DeepSpeed 0.19 still calls the old name in every step of ZeRO.
        warnings.filterwarnings("ignore", ".*all_gather_into_tensor.* is deprecated", FutureWarning)
        # PyTorch's own AdamW, because DeepSpeed's would be compiled at the first start as well.
        self.engine, *_ = deepspeed.initialize(
            model=model,
            optimizer=torch.optim.AdamW(model.parameters(), lr=args.lr),
            config=str(args.deepspeed_config),
        )
        self.micro_batch = self.engine.train_micro_batch_size_per_gpu()
        self.accumulation = self.engine.gradient_accumulation_steps()

    def train(self, inputs: Tensor, targets: Tensor) -> Tensor:
        loss = self.engine(inputs, targets)
        self.engine.backward(loss)
        self.engine.step()
        return loss.detach()

    def save(self, folder: Path) -> None:
        self.engine.save_checkpoint(str(folder.parent), tag=folder.name, save_latest=False)

    def load(self, folder: Path) -> None:
        self.engine.load_checkpoint(str(folder.parent), tag=folder.name)


Trainer = PlainTrainer | DeepSpeedTrainer
