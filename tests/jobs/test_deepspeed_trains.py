"""DeepSpeed trains on two nodes x two ranks, by each launcher that Slurm starts on the nodes.

Its own launcher over ssh is in test_over_ssh.py.
"""

from __future__ import annotations

import pathlib
import re

import pytest
from own_numbers import Kind
from reported import check_report, recorded

from clusterjobs.frameworks.deepspeed import DeepSpeed

pytest.importorskip("deepspeed", reason="needs the extra 'train'")
pytestmark = [pytest.mark.lab, pytest.mark.slow]

SCRIPT = pathlib.Path(__file__).with_name("train_tiny_gpt.py")
STEPS = 12


@pytest.mark.parametrize("launcher", ["srun", "torchrun", "deepspeed"])
def test_deepspeed_trains_one_model_in_four_ranks(jobs, launcher: str) -> None:
    spec = jobs.spec(
        f"trains-{launcher}",
        framework="deepspeed",
        launcher=launcher,
        script=str(SCRIPT),
        batch={"micro": 4, "global": 32},
        zero={"stage": 1},
        args={"layers": 1, "hidden": 64, "steps": STEPS, "log-every": 1},
        ds_config={"log_level": "info", "steps_per_print": 1},
    )
    ended = jobs.end(jobs.submit(jobs.render(recorded(spec))), spec["name"], 500)
    assert ended.exit_code == 0, ended.log
    first, second = jobs.lab.facts.nodes
    for rank, node in enumerate((first, first, second, second)):
        assert f"rank {rank} of 4: local rank {rank % 2} on {node}" in ended.log, ended.log
    steps = re.findall(rf"step (\d+)/{STEPS} loss", ended.log)
    assert steps == [str(step) for step in range(1, STEPS + 1)]
    (line,) = DeepSpeed.log_lines
    assert re.search(line.pattern, ended.log), ended.log
    kind = Kind("deepspeed", clock="engine")
    check_report(jobs, spec["name"], ended.job_id, kind, "deepspeed", "torch")
