"""A training that knows nothing of clusterjobs: Lightning's Trainer without sizes or folders.

    train_lightning.py --steps COUNT --save-every STEPS

Rank and step decide a batch, so that no data loader has to be resumed.
"""

from __future__ import annotations

import argparse
import logging
import os
import socket
import time

import torch
from lightning.pytorch import LightningModule, Trainer
from lightning.pytorch.callbacks import ModelCheckpoint, ThroughputMonitor, TQDMProgressBar
from lightning.pytorch.loggers import CSVLogger
from own_record import OwnRecord


class Line(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.model = torch.nn.Sequential(
            torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)
        )

    def on_train_batch_start(self, _batch: object, _index: int) -> None:
        self.start = time.monotonic()

    def optimizer_step(self, *args: object, **keys: object) -> None:
        """Forward, backward and update: a hook behind them is not called for the last step."""
        step = self.trainer.global_step + 1
        super().optimizer_step(*args, **keys)
        self.record.add(step, 16, self.start, time.monotonic(), loss=self.own)
        if self.trainer.is_global_zero:
            print(f"step {step} loss {self.mean:.6f}", flush=True)

    def training_step(self, _batch: object, _index: int) -> torch.Tensor:
        step = self.trainer.global_step
        source = torch.Generator().manual_seed(1000 * step + self.global_rank)
        inputs = torch.randn(16, 8, generator=source)
        loss = torch.nn.functional.mse_loss(self.model(inputs), inputs.sum(1, keepdim=True))
        mean = self.all_gather(loss.detach()).mean().item()
        self.own, self.mean = loss.item(), mean
        self.log("train_loss", mean, prog_bar=True)
        time.sleep(0.05)
        return loss

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return torch.optim.Adam(self.parameters(), lr=0.01)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--save-every", type=int, required=True)
    parser.add_argument("--csv", required=True, help="the folder of CSVLogger")
    options = parser.parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.INFO)
    checkpoints = ModelCheckpoint(every_n_train_steps=options.save_every)
    throughput = ThroughputMonitor(batch_size_fn=lambda _: 16, window_size=10)
    trainer = Trainer(
        max_steps=options.steps,
        callbacks=[checkpoints, throughput, TQDMProgressBar(refresh_rate=10)],
        logger=CSVLogger(options.csv),
        log_every_n_steps=5,
    )
    rank, world = trainer.global_rank, trainer.world_size
    place = f"{trainer.local_rank} on {socket.gethostname()}"
    print(f"rank {rank} of {world}: {place}, pid {os.getpid()}", flush=True)
    model = Line()
    model.record = OwnRecord(rank)
    trainer.fit(model, torch.utils.data.DataLoader(range(options.steps * world)))
    environment = trainer.strategy.cluster_environment
    print(f"{type(environment).__name__}: auto_requeue {environment.auto_requeue}", flush=True)


if __name__ == "__main__":
    main()
