"""The callback for Lightning, without Lightning: which checkpoint it finds, and how it stops."""

from __future__ import annotations

import importlib
import os
import pathlib
import types
import zipfile
from typing import Any

import pytest

from clusterjobs.node.train import lightning_callback


class Base:
    """What is used of Lightning's OnExceptionCheckpoint."""

    def __init__(self, dirpath: str) -> None:
        self.dirpath = dirpath


class Strategy:
    """One rank, or the first of several."""

    checkpoint_io = types.SimpleNamespace(teardown=lambda: None)

    def reduce_boolean_decision(self, decision: bool, all: bool) -> bool:  # noqa: A002
        assert not all
        return decision

    def barrier(self) -> None:
        pass


class Trainer:
    def __init__(self, callback: Any, saves_folder: bool = False) -> None:
        self.callback, self.saves_folder = callback, saves_folder
        self.global_step, self.is_global_zero, self.strategy = 0, True, Strategy()
        environment = types.SimpleNamespace(auto_requeue=True)
        self._accelerator_connector = types.SimpleNamespace(cluster_environment=environment)

    def save_checkpoint(self, path: pathlib.Path) -> None:
        self.callback.on_save_checkpoint(self, None, {})
        if self.saves_folder:
            path.mkdir()
            (path / "shard").touch()
        else:
            save(path)

    def train(self, steps: int) -> None:
        """Two batches for each step of the optimizer."""
        self.callback.setup(self, None, stage="fit")
        self.callback.on_train_start(self, None)
        for batch in range(2 * steps):
            self.callback.on_train_batch_start(self, None, None, batch)
            self.global_step += batch % 2
            self.callback.on_train_batch_end(self, None, None, None, batch)
        self.callback.on_train_end(self, None)


def save(path: pathlib.Path, seconds: int = 0) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr("data.pkl", "x" * 1000)
    if seconds:
        os.utime(path, (seconds, seconds))


@pytest.fixture
def callback(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    (tmp_path / "checkpoints").mkdir()
    monkeypatch.setenv("CLUSTERJOBS_CHECKPOINTS", str(tmp_path / "checkpoints"))
    monkeypatch.setenv("CLUSTERJOBS_STOP_FILE", str(tmp_path / "stop"))
    module = types.SimpleNamespace(OnExceptionCheckpoint=Base)
    monkeypatch.setattr(importlib, "import_module", {"lightning.pytorch.callbacks": module}.get)
    return lightning_callback.for_lightning()


def test_the_newest_complete_checkpoint_of_any_folder_is_found(callback: Any) -> None:
    assert callback.ckpt_path == ""
    below = callback.folder / "lightning_logs" / "version_0" / "checkpoints"
    below.mkdir(parents=True)
    save(callback.folder / "stopped-step=10.ckpt", 1000)
    save(below / "epoch=0-step=20.ckpt", 2000)
    save(below / "last.ckpt", 3000)
    assert callback.ckpt_path == str(below / "last.ckpt")
    os.truncate(below / "last.ckpt", 500)
    os.utime(below / "last.ckpt", (3000, 3000))
    assert callback.ckpt_path == str(below / "epoch=0-step=20.ckpt")
    (callback.folder / "sharded.ckpt").mkdir()
    assert callback.ckpt_path == str(callback.folder / "sharded.ckpt")


@pytest.mark.parametrize(
    ("part", "last"), [("__0_0.distcp", "meta.pt"), ("checkpoint/rank.pt", "latest")]
)
def test_a_folder_that_is_cut_off_is_not_resumed(callback: Any, part: str, last: str) -> None:
    save(callback.folder / "step=10.ckpt", 1000)
    sharded = callback.folder / "step=20.ckpt"
    (sharded / part).parent.mkdir(parents=True)
    (sharded / part).touch()
    assert callback.ckpt_path == str(callback.folder / "step=10.ckpt")
    (sharded / last).touch()
    assert callback.ckpt_path == str(sharded)


def test_a_trial_of_lightnings_tuner_is_not_resumed(callback: Any) -> None:
    save(callback.folder / ".lr_find_1.ckpt")
    assert callback.ckpt_path == ""


@pytest.mark.parametrize("saves_folder", [False, True])
def test_it_saves_once_after_a_step_and_ends(
    callback: Any, saves_folder: bool, tmp_path: pathlib.Path
) -> None:
    for left in ("stopped-step=1.ckpt", "stopped-step=2.ckpt.part"):
        save(callback.folder / left)
    trainer = Trainer(callback, saves_folder)
    trainer.train(2)
    assert not (callback.folder / "latest.txt").exists()
    (tmp_path / "stop").touch()
    with pytest.raises(SystemExit) as end:
        trainer.train(5)
    assert end.value.code == 0
    assert trainer.global_step == 3, "stopped between two steps"
    assert sorted(one.name for one in callback.folder.iterdir()) == [
        "latest.txt",
        "stopped-step=3.ckpt",
    ]
    assert (callback.folder / "latest.txt").read_text() == "step=3\n"
    assert (callback.folder / "stopped-step=3.ckpt").is_dir() is saves_folder


def test_the_marker_follows_the_checkpoints_of_others(callback: Any) -> None:
    trainer = Trainer(callback)
    trainer.train(1)
    callback.on_save_checkpoint(trainer, None, {})
    assert not (callback.folder / "latest.txt").exists(), "it is not written yet"
    callback.on_train_batch_start(trainer, None, None, 0)
    assert (callback.folder / "latest.txt").read_text() == "step=1\n"


def test_a_marker_that_cannot_be_written_does_not_end_the_training(
    callback: Any, capsys: pytest.CaptureFixture[str]
) -> None:
    (callback.folder / "latest.txt").mkdir()
    trainer = Trainer(callback)
    callback.on_save_checkpoint(trainer, None, {})
    trainer.train(1)
    assert "latest.txt is not written" in capsys.readouterr().out


def test_lightnings_own_requeue_is_switched_off(callback: Any) -> None:
    trainer = Trainer(callback)
    trainer.train(1)
    assert trainer._accelerator_connector.cluster_environment.auto_requeue is False


def test_it_saves_and_removes_nothing_when_a_rank_fails(callback: Any) -> None:
    save(callback.folder / "last.ckpt")
    callback.on_exception(Trainer(callback), None, ValueError())
    callback.teardown(Trainer(callback), None, stage="fit")
    assert [one.name for one in callback.folder.iterdir()] == ["last.ckpt"]


def test_without_checkpoints_there_is_no_callback(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CLUSTERJOBS_CHECKPOINTS", raising=False)
    assert lightning_callback.for_lightning() == []
    assert lightning_callback.for_pytorch_lightning() == []
