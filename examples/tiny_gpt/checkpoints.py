"""Checkpoints; incomplete ones are ignored."""

import json
import shutil
from pathlib import Path

import torch
import torch.distributed as dist
from trainers import Trainer


class Checkpoints:
    """Folders named global_step<N>; the file `latest` contains the name of the newest complete one.

    `complete.json` in each folder is written last and contains the size of every file. It reveals
    checkpoints that are incomplete because of a full disk or a killed node.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def save(self, trainer: Trainer, steps_done: int) -> None:
        target = self.folder / f"global_step{steps_done}"
        if dist.get_rank() == 0:
            shutil.rmtree(target, ignore_errors=True)
            target.mkdir(parents=True)
        dist.barrier()
        trainer.save(target)  # returns once every rank has written its part
        if dist.get_rank() == 0:
            sizes = {file.name: file.stat().st_size for file in target.iterdir()}
            replace_text(target / "complete.json", json.dumps(sizes, indent=2))
            replace_text(self.folder / "latest", target.name)

    def newest_complete(self) -> int:
        """The number of steps in the newest complete checkpoint; 0 if there is none."""
        found = (path.parent for path in self.folder.glob("global_step*/complete.json"))
        steps = (int(path.name.removeprefix("global_step")) for path in found if is_complete(path))
        return max(steps, default=0)

    def load(self, trainer: Trainer, device: torch.device) -> int:
        # Rank 0 decides for all: a shared file system may show each node a different state.
        newest = self.newest_complete() if dist.get_rank() == 0 else 0
        shared = torch.tensor(newest, device=device)
        dist.broadcast(shared, src=0)
        steps_done = int(shared)
        if steps_done:
            trainer.load(self.folder / f"global_step{steps_done}")
        return steps_done


def is_complete(checkpoint: Path) -> bool:
    sizes = json.loads((checkpoint / "complete.json").read_text())
    files = {checkpoint / name: size for name, size in sizes.items()}
    return all(file.is_file() and file.stat().st_size == size for file, size in files.items())


def replace_text(path: Path, text: str) -> None:
    """Replace the file atomically, also for a reader on another node."""
    draft = path.with_name(f"{path.name}.draft")
    draft.write_text(text)
    draft.replace(path)
