"""The training script of the examples, run for real on two and four CPU ranks."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

pytest.importorskip("torch", reason="needs the extra 'train'")

SCRIPT = Path(__file__).parents[2] / "examples" / "tiny_gpt" / "train.py"
SMALL = ["--layers", "1", "--hidden", "64", "--log-every", "1"]
DEEPSPEED_CONFIG = {
    "train_micro_batch_size_per_gpu": 4,
    "gradient_accumulation_steps": 2,
    "zero_optimization": {"stage": 1},
}
PATIENCE_SECONDS = 120

pytestmark = pytest.mark.slow


@pytest.fixture(params=["plain", "deepspeed"])
def options(request: pytest.FixtureRequest, tmp_path: Path) -> list[str]:
    if request.param == "plain":
        return SMALL
    config = tmp_path / "ds_config.json"
    config.write_text(json.dumps(DEEPSPEED_CONFIG))
    return [*SMALL, "--deepspeed", "--deepspeed_config", str(config)]


@contextmanager
def started(ranks: int, *options: str) -> Iterator[list[subprocess.Popen[str]]]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # Without PATH no compiler can be found: nothing may be built at run time.
    env = {name: value for name, value in os.environ.items() if name != "PATH"}
    env |= {"WORLD_SIZE": str(ranks), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    processes = [
        subprocess.Popen(
            [sys.executable, str(SCRIPT), *options],
            env=env | {"RANK": str(rank), "LOCAL_RANK": str(rank)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for rank in range(ranks)
    ]
    try:
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.communicate()


def train(folder: Path, steps: int, *options: str, ranks: int = 2) -> str:
    """What all ranks printed, rank 0 first."""
    with started(
        ranks, *options, "--checkpoint-dir", str(folder), "--steps", str(steps)
    ) as running:
        outputs = [process.communicate(timeout=PATIENCE_SECONDS)[0] for process in running]
        assert [process.returncode for process in running] == [0] * ranks, "\n".join(outputs)
    return "".join(outputs)


def losses(output: str) -> dict[int, str]:
    found = re.findall(
        r"^step (\d+)/\d+ loss (\d+\.\d{3}) samples/s \d+\.\d$", output, re.MULTILINE
    )
    return {int(step): loss for step, loss in found}


def test_loss_falls_on_four_ranks(options: list[str], tmp_path: Path) -> None:
    output = train(tmp_path / "run", 60, *options, ranks=4)

    curve = losses(output)
    assert list(curve) == list(range(1, 61))
    assert float(curve[1]) > 5
    assert float(curve[60]) < 3


def test_every_rank_tells_who_it_is_and_nothing_else_is_said(
    options: list[str], tmp_path: Path
) -> None:
    output = train(tmp_path / "run", 1, *options)

    for rank in range(2):
        assert re.search(
            rf"^rank {rank} of 2: local rank {rank} on \S+, master 127\.0\.0\.1:\d+$",
            output,
            re.MULTILINE,
        )
    assert len(output.splitlines()) == 3, output


def test_resumed_run_repeats_the_losses_of_an_uninterrupted_one(
    options: list[str], tmp_path: Path
) -> None:
    # A sum of two has no order, one of three has.
    whole = losses(train(tmp_path / "whole", 12, *options, ranks=3))

    first = losses(train(tmp_path / "parts", 7, *options, ranks=3))
    output = train(tmp_path / "parts", 12, *options, ranks=3)

    assert "resuming after step 7" in output
    assert first | losses(output) == whole
    assert list(losses(output)) == [8, 9, 10, 11, 12]
    straight, resumed = (weights(tmp_path / name / "global_step12") for name in ("whole", "parts"))
    assert len(straight) > 10
    assert [name for name, bits in straight.items() if resumed[name] != bits] == []


def weights(checkpoint: Path) -> dict[str, bytes]:
    """Every parameter of the model, bit for bit."""
    import torch

    (file,) = (*checkpoint.glob("state.pt"), *checkpoint.glob("*_model_states.pt"))
    state = torch.load(file, weights_only=False)
    model = state["model" if file.name == "state.pt" else "module"]
    return {name: tensor.numpy().tobytes() for name, tensor in model.items()}


@pytest.mark.parametrize("damage", ["truncated", "lost", "never finished"])
def test_damaged_newest_checkpoint_gives_way_to_the_one_before(
    options: list[str], tmp_path: Path, damage: str
) -> None:
    folder = tmp_path / "run"
    whole = losses(train(folder, 8, *options, "--save-every", "4"))
    newest = folder / "global_step8"
    part = max(newest.glob("*.pt"))
    match damage:
        case "truncated":
            part.write_bytes(part.read_bytes()[:-1])
        case "lost":
            part.unlink()
        case "never finished":
            (newest / "complete.json").unlink()

    output = train(folder, 8, *options, "--save-every", "4")

    assert "resuming after step 4" in output
    assert losses(output) == {step: whole[step] for step in range(5, 9)}
    assert (folder / "latest").read_text() == "global_step8"


def test_signal_to_one_rank_makes_all_save_and_leave(options: list[str], tmp_path: Path) -> None:
    folder = tmp_path / "run"
    whole = ["--checkpoint-dir", str(folder), "--steps", "100000", "--save-every", "0"]
    with started(2, *options, *whole) as (first, second):
        assert first.stdout is not None
        for line in first.stdout:
            if line.startswith("step 3/"):
                break
        second.send_signal(signal.SIGUSR1)
        codes = [process.wait(PATIENCE_SECONDS) for process in (first, second)]

    assert codes == [128 + signal.SIGTERM, 128 + signal.SIGUSR1]
    assert (folder / "latest").read_text().startswith("global_step")


def test_missing_environment_is_named() -> None:
    environment = {name: value for name, value in os.environ.items() if name != "MASTER_ADDR"}
    environment |= {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "MASTER_PORT": "1"}

    done = subprocess.run(
        [sys.executable, str(SCRIPT)], env=environment, capture_output=True, text=True
    )

    assert done.returncode == 1
    assert done.stderr == "train.py: not set by the launcher: MASTER_ADDR\n"


def test_it_trains_and_resumes_without_numpy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """pip does not install numpy with torch."""
    missing = tmp_path / "packages" / "numpy.py"
    missing.parent.mkdir()
    missing.write_text("raise ModuleNotFoundError('no numpy')\n")
    monkeypatch.setenv("PYTHONPATH", str(missing.parent))
    folder = tmp_path / "checkpoints"
    folder.mkdir()
    assert "Failed to initialize NumPy" in train(folder, 2, *SMALL)
    assert "resuming after step 2" in train(folder, 4, *SMALL)
