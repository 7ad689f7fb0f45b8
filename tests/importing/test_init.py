"""clusterjobs init writes a spec that renders, whatever the framework."""

from __future__ import annotations

import os
import pathlib
import pty
import subprocess
import sys

import pytest

from clusterjobs.cli.main import run
from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.importing.init import init


@pytest.fixture(autouse=True)
def _in_a_folder(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("framework", FRAMEWORKS)
def test_the_spec_renders(framework: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["init", "--yes", "--framework", framework, "--cluster", "p4d-a100"]) == 0
    assert "next: clusterjobs plan exp.yaml" in capsys.readouterr().out
    assert run(["render", "exp.yaml"]) == 0


@pytest.mark.parametrize(
    ("text", "framework"),
    [
        ("from transformers import Trainer\nTrainer(model)", "huggingface"),
        ("import lightning as L", "lightning"),
        ("engine = deepspeed.initialize(model=model)", "deepspeed"),
        ("torch.distributed.init_process_group('nccl')", "torchrun"),
        ("print(1)", "torchrun"),
    ],
)
def test_the_training_script_decides_the_framework(
    text: str, framework: str, tmp_path: pathlib.Path
) -> None:
    (tmp_path / "util.py").write_text("pass")
    (tmp_path / "train_gpt.py").write_text(text)
    assert run(["init", "--yes"]) == 0
    spec = (tmp_path / "exp.yaml").read_text()
    assert f"framework: {framework}\nscript: train_gpt.py\n" in spec


def test_a_config_in_the_folder_is_the_cluster(tmp_path: pathlib.Path) -> None:
    (tmp_path / "mine.yaml").write_text(
        "kind: slurm\nnode_types: {n: {gpus: 8, cpus: 96}}\npartitions: {p: {nodes: {n: 4}}}\n"
    )
    assert run(["init", "--yes"]) == 0
    assert 'cluster: "./mine.yaml"' in (tmp_path / "exp.yaml").read_text()


TWO_QUEUES = """\
kind: slurm
node_types: {gpu: {gpus: 8, cpus: 96}, cpu: {cpus: 96}}
partitions: {cpu: {nodes: {cpu: 4}}, a: {nodes: {gpu: 4}}, b: {nodes: {gpu: 2}}}
default_partition: b
"""


@pytest.mark.parametrize(
    ("words", "queue"),
    [
        ([], "b"),
        (["--queue", "a"], "a"),
        (["--cluster", "./mine.yaml:a"], "a"),
        (["--cluster", "./mine.yaml"], "b"),
        (["--cluster", "p4d-a100"], ""),
    ],
)
def test_a_queue_is_chosen_where_the_cluster_has_several_for_gpus(
    words: list[str], queue: str, tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "mine.yaml").write_text(TWO_QUEUES)
    assert run(["init", "--yes", *words]) == 0
    spec = (tmp_path / "exp.yaml").read_text()
    assert ("queue:" in spec) == bool(queue)
    assert not queue or f"\nqueue: {queue}\n" in spec
    said = f"queue {queue} of ./mine.yaml; it also has {'a' if queue == 'b' else 'b'}: --queue"
    assert (said in capsys.readouterr().out) == (bool(queue) and "--queue" not in words)


def test_a_config_in_the_folder_is_the_cluster_with_its_queue_on_a_terminal(
    tmp_path: pathlib.Path,
) -> None:
    (tmp_path / "mine.yaml").write_text(TWO_QUEUES)
    shown = on_a_terminal(tmp_path, b"torchrun\ntrain.py\n2\n\n\n\n")
    assert "cluster, or CLUSTER:QUEUE [./mine.yaml:b]: " in shown
    assert shown.count("]: ") == 6
    assert "\nqueue: b\n" in (tmp_path / "exp.yaml").read_text()


def test_data_and_checkpoints(tmp_path: pathlib.Path) -> None:
    words = ["--data", "s3://bucket/pile", "--checkpoints", "/fsx/run", "--cluster", "p4d-a100"]
    assert run(["init", "--yes", *words]) == 0
    spec = (tmp_path / "exp.yaml").read_text()
    assert 'data: [{source: "s3://bucket/pile", target: /fsx/data/pile}]' in spec
    assert "checkpoints: {path: /fsx/run}" in spec


def test_an_existing_file_is_kept(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "exp.yaml").write_text("mine")
    assert run(["init", "--yes"]) == 1
    assert "exp.yaml exists" in capsys.readouterr().err
    assert (tmp_path / "exp.yaml").read_text() == "mine"


def test_an_sbatch_script_is_pointed_out(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "job.sbatch").write_text("#!/bin/bash\n#SBATCH -N 2\n")
    assert run(["init", "--yes"]) == 0
    assert "clusterjobs import job.sbatch makes a spec of it" in capsys.readouterr().out


def on_a_terminal(folder: pathlib.Path, answers: bytes) -> str:
    """What init prints there."""
    master, slave = pty.openpty()
    words = [sys.executable, "-m", "clusterjobs", "init"]
    with subprocess.Popen(words, stdin=slave, stdout=subprocess.PIPE, cwd=folder) as process:
        os.close(slave)
        os.write(master, answers)
        assert process.stdout
        shown = process.stdout.read().decode()
    os.close(master)
    assert process.returncode == 0
    return shown


def test_it_asks_at_most_six_questions_on_a_terminal(tmp_path: pathlib.Path) -> None:
    shown = on_a_terminal(tmp_path, b"torchrun\ntrain.py\n4\np4d-a100\n\n\n")
    assert shown.count("]: ") == 6
    assert "nodes: 4\n" in (tmp_path / "exp.yaml").read_text()


def test_every_question_is_an_option() -> None:
    names = {one.name for one in init.params}
    assert {"framework", "script", "nodes", "cluster", "queue", "data", "checkpoints"} <= names
