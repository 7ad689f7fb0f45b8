"""Logs of real trainings, compared with what each program wrote down of its own steps.

The same comparison is made with new logs where the trainings run: tests/jobs/test_*_trains.py.
"""

from __future__ import annotations

import json
import math

import pytest
from own_numbers import LOGS, Kind, check_windows, kept_losses, recorded_steps, repeated_steps

KINDS = {
    "accelerate": Kind("own script"),
    "deepspeed": Kind("deepspeed", clock="engine"),
    "deepspeed_by_srun": Kind("deepspeed", clock="engine"),
    "fairseq": Kind("fairseq", every=2, is_mean=True),
    "fairseq_hydra": Kind("fairseq", every=2, is_mean=True),
    "horovod_by_mpirun": Kind("horovod", every=10, clock="one step", has_loss=False),
    "horovodrun": Kind("horovod", every=10, clock="one step", has_loss=False),
    "huggingface": Kind("huggingface", clock=""),
    "huggingface_resumed": Kind("huggingface", clock=""),
    "lightning_rich": Kind("own script", clock=""),
    "lightning_tqdm": Kind("own script", clock=""),
    "lightning_tqdm_resumed": Kind("own script", clock=""),
    "megatron_core": Kind("megatron-lm"),
    "megatron_core_resumed": Kind("megatron-lm"),
    "torchrun": Kind("own script"),
    "torchrun_restarted": Kind("own script"),
}


def test_each_log_is_compared() -> None:
    assert {file.stem for file in LOGS.glob("*.log")} == set(KINDS)


@pytest.mark.parametrize("name", KINDS)
def test_the_windows_are_those_of_the_program(name: str) -> None:
    check_windows((LOGS / f"{name}.log").read_bytes(), recorded_steps(name), KINDS[name])


@pytest.mark.parametrize("name", KINDS)
def test_the_report_has_the_steps_and_losses_of_the_program(clusterjobs, name: str) -> None:
    shown = clusterjobs("report", LOGS / f"{name}.log", "--json")
    assert shown.code == 0, shown.err
    (found,) = json.loads(shown.out)["runs"]
    steps = recorded_steps(name)
    assert found["framework"] == KINDS[name].framework
    assert found["steps"] == max(row["step"] for row in steps)
    assert found["lost_steps"] == repeated_steps(steps)
    attempts = [one["number"] for one in found["attempts"]]
    assert attempts == sorted({row["attempt"] for row in steps})
    if KINDS[name].has_loss and not KINDS[name].is_mean:
        own = kept_losses(steps)
        shown_losses = dict(found["series"]["loss"])
        assert shown_losses.keys() == own.keys()
        wrong = [
            step for step in own if not math.isclose(own[step], shown_losses[step], rel_tol=1e-3)
        ]
        assert not wrong
