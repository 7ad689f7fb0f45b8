"""framework: megatron-lm in a real Slurm: a tiny GPT of megatron-core, on four ranks with gloo."""

from __future__ import annotations

import importlib.metadata
import pathlib
import re
from typing import Any

import pytest
from faults import TIMEOUT, Running
from own_numbers import Kind
from reported import check_report, recorded

from clusterjobs.frameworks import FRAMEWORKS
from clusterjobs.lab.lab import until

IS_INSTALLED = any(one.name == "megatron-core" for one in importlib.metadata.distributions())
pytestmark = [
    pytest.mark.lab,
    pytest.mark.slow,
    pytest.mark.skipif(not IS_INSTALLED, reason="needs the package megatron-core"),
]

PROGRAM = pathlib.Path(__file__).with_name("train_megatron_core.py")
ITERATIONS, PAUSE = 10, 6


def spec_of(jobs, name: str, args: dict[str, Any] | None = None, **keys: Any) -> dict[str, Any]:
    common = {
        "train-iters": ITERATIONS,
        "lr": 0.1,
        "save-interval": 5,
        "tensorboard-dir": f"/fsx/records/{name}",
    }
    return jobs.spec(
        name,
        framework="megatron-lm",
        script=str(PROGRAM),
        model={"layers": 2, "hidden": 32, "heads": 4, "sequence": 16},
        parallel={"tensor": 2},
        batch={"micro": 2, "global": 8},
        checkpoints={"path": f"/fsx/checkpoints/{name}"},
        args={**common, **(args or {})},
        **keys,
    )


def losses(log: str) -> dict[int, str]:
    """The loss of each iteration; each is printed once."""
    (known,) = FRAMEWORKS["megatron-lm"].log_lines
    found = [re.search(known.pattern, text) for text in log.splitlines()]
    numbers = [(int(one["step"]), one["loss"]) for one in found if one]
    assert len(numbers) == len(dict(numbers)), "an iteration was done twice"
    return dict(numbers)


def test_an_interrupted_training_of_four_ranks_has_the_losses_of_another(jobs) -> None:
    straight = jobs.run(recorded(spec_of(jobs, "megatron-straight")))
    assert straight.exit_code == 0, straight.log
    for rank, record in straight.ranks.items():
        assert record["WORLD_SIZE"] == "4"
        assert record["groups"]["tensor"] == ([0, 1] if rank < 2 else [2, 3])
        assert record["groups"]["data"] == [rank % 2, rank % 2 + 2]
    assert sorted(straight.ranks) == [0, 1, 2, 3]
    expected = losses(straight.log)
    assert sorted(expected) == list(range(1, ITERATIONS + 1))
    assert expected[1] != expected[ITERATIONS]

    name = "megatron-told"
    spec = spec_of(
        jobs,
        name,
        {"exit-signal-handler": True},
        launcher="srun",
        time_limit="00:10:00",
        restarts={"time_limit": 2, "grace_seconds": 1},
    )
    folder = jobs.lab.folder.shared("/fsx")
    job = Running(jobs.lab, jobs.submit(jobs.render(recorded(spec))), folder)
    until(lambda: PAUSE in losses(job.log()), TIMEOUT, job.log)
    job.scancel("--batch", "--signal=USR1")  # as before a time limit
    ended = jobs.end(job.job_id, name)
    assert ended.exit_code == 0, ended.log
    assert f"loaded checkpoint at iteration {PAUSE}" in ended.log
    assert losses(ended.log) == expected
    words = ended.ranks[0]["arguments"]
    assert 1 <= int(words[words.index("--exit-duration-in-mins") + 1]) <= 5
    tracker = folder / "checkpoints" / name / "latest_checkpointed_iteration.txt"
    assert tracker.read_text() == str(ITERATIONS)
    reasons = [record["reason"] for record in job.records()]
    assert reasons == ["time_limit", "completed"]
    for training, job_id in (("megatron-straight", straight.job_id), (name, job.job_id)):
        kind = Kind("megatron-lm")
        check_report(jobs, training, job_id, kind, "megatron-core", "torch", printer=3)
