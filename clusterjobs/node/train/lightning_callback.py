"""A callback for Lightning: save and end at the job's stop file, resume from the newest checkpoint.

Runs in the ranks. Lightning loads it through an entry point, so no script has to name it. It must
not know Slurm: the job requeues itself. Source: Lightning 2.6, pytorch/callbacks/
on_exception_checkpoint.py and pytorch/trainer/connectors/checkpoint_connector.py.
"""

from __future__ import annotations

import importlib
import os
import pathlib
import shutil
import zipfile
from typing import Any


def for_lightning() -> Any:
    """The callback of the package `lightning`."""
    return _callback("lightning.pytorch.callbacks")


def for_pytorch_lightning() -> Any:
    """The same for the package `pytorch_lightning`, whose classes are others."""
    return _callback("pytorch_lightning.callbacks")


def _callback(module: str) -> Any:
    folder = os.environ.get("CLUSTERJOBS_CHECKPOINTS")
    if not folder:
        return []
    # Lightning reads `ckpt_path` of this class if the script names no checkpoint.
    base = importlib.import_module(module).OnExceptionCheckpoint
    return type("ClusterjobsCheckpoint", (Checkpoints, base), {})(folder)


class Checkpoints:
    """What differs from OnExceptionCheckpoint, the other base of the callback."""

    def __init__(self, folder: str) -> None:
        super().__init__(folder)  # type: ignore[call-arg]  # the other base takes it
        self.folder = pathlib.Path(folder)
        self.stop_file = os.environ.get("CLUSTERJOBS_STOP_FILE", "")
        self.step = 0
        self.was_saved = False

    @property
    def ckpt_path(self) -> str:
        """The newest complete checkpoint in the folder, "" if there is none."""
        # Lightning's tuner names its own with a dot first: states of a trial, left if it is killed.
        visible = (one for one in self.folder.rglob("*.ckpt") if not one.name.startswith("."))
        found = [one for one in visible if _is_complete(one)]
        return str(max(found, key=lambda one: (one.stat().st_mtime, one.name), default=""))

    def setup(self, trainer: Any, *_: Any, **__: Any) -> None:
        """Switch off Lightning's own requeue: the job would be requeued twice."""
        environment = trainer._accelerator_connector.cluster_environment
        if hasattr(environment, "auto_requeue"):
            environment.auto_requeue = False

    def on_train_start(self, trainer: Any, *_: Any) -> None:
        self.step = trainer.global_step

    def on_save_checkpoint(self, *_: Any) -> None:
        """Called before a checkpoint is written, which is complete at the next batch."""
        self.was_saved = True

    def on_train_batch_start(self, trainer: Any, *_: Any) -> None:
        self._mark(trainer)

    def on_train_batch_end(self, trainer: Any, *_: Any) -> None:
        """After a step of the optimizer, all ranks agree whether to stop."""
        if not self.stop_file or trainer.global_step == self.step:
            return
        self.step = trainer.global_step
        is_asked = trainer.is_global_zero and os.path.exists(self.stop_file)
        if trainer.strategy.reduce_boolean_decision(is_asked, all=False):
            self._save(trainer)
            raise SystemExit(0)  # what follows fit() in the script would take the rest of the time

    def on_train_end(self, trainer: Any, *_: Any) -> None:
        self._mark(trainer)

    def on_exception(self, *_: Any) -> None:
        """Save nothing: a rank that fails would wait for the others in vain."""

    def teardown(self, *_: Any, **__: Any) -> None:
        """Remove nothing: the other base would remove the newest checkpoint."""

    def _save(self, trainer: Any) -> None:
        """Under another name first: a checkpoint that is cut off must not look complete."""
        target = self.folder / f"stopped-step={self.step}.ckpt"
        part = self.folder / f"{target.name}.part"
        if trainer.is_global_zero:
            _remove(part)
        trainer.strategy.barrier()
        trainer.save_checkpoint(part)
        trainer.strategy.checkpoint_io.teardown()  # waits if a thread saves it
        trainer.strategy.barrier()
        if trainer.is_global_zero:
            _remove(target)
            part.rename(target)
            for other in self.folder.glob("stopped-step=*.ckpt*"):
                if other != target:
                    _remove(other)
            print(f"clusterjobs: saved {target}, as the job asked to stop", flush=True)
        self._mark(trainer)
        trainer.strategy.barrier()

    def _mark(self, trainer: Any) -> None:
        """Rewrite the marker, by which the job sees that there is a newer checkpoint."""
        if self.was_saved and trainer.is_global_zero:
            marker = self.folder / "latest.txt"
            text = marker.with_name(".latest.txt.new")
            try:
                text.write_text(f"step={trainer.global_step}\n")
                text.replace(marker)
            except OSError as error:  # a training can go on without it
                print(f"clusterjobs: {marker} is not written: {error}", flush=True)
        self.was_saved = False


def _is_complete(path: pathlib.Path) -> bool:
    """A file of torch.save is a zip archive, whose directory is at its end.

    In a folder, FSDP writes meta.pt last, and DeepSpeed the file `latest`.
    """
    if not path.is_dir():
        return zipfile.is_zipfile(path)
    if (path / "checkpoint").is_dir():
        return (path / "latest").is_file()
    return (path / "meta.pt").is_file() or not any(path.glob("*.distcp"))


def _remove(path: pathlib.Path) -> None:
    if path.is_dir():
        shutil.rmtree(path)
    elif path.exists():
        path.unlink()
