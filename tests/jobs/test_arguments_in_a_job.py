"""A job asks DeepSpeed itself about its arguments, before it stages anything."""

from __future__ import annotations

import json
from typing import Any

import pytest
from rendered_jobs import Jobs

pytest.importorskip("deepspeed", reason="needs the extra 'train'")
pytestmark = pytest.mark.lab

FAILED = 69


def spec_of(jobs: Jobs, name: str, **keys: Any) -> dict[str, Any]:
    source = jobs.lab.folder.shared("/fsx") / "source"
    source.mkdir(exist_ok=True)
    (source / "text").write_text("data")
    common = {
        "framework": "deepspeed",
        "launcher": "srun",
        "batch": {"micro": 4},
        "preflight": {"checks": ["space"]},
        "args": {"lr": 1e-4},
        "data": [{"source": "/fsx/source", "target": f"/fsx/staged-{name}"}],
    }
    return jobs.spec(name, **{**common, **keys})


def test_a_wrong_argument_ends_the_job_with_its_line_before_anything_is_staged(jobs: Jobs) -> None:
    wrong = {"scheduler": {"type": "WarmupLR", "params": {"warmup_iters": 100}}}
    ended = jobs.run(spec_of(jobs, "wrong", ds_config=wrong))
    assert ended.exit_code == FAILED, ended.log
    assert ended.ranks == {}
    assert "got an unexpected keyword argument 'warmup_iters'" in ended.log
    (line,) = [one for one in ended.log.splitlines() if "'warmup_iters'" in one]
    assert line.startswith("exp.yaml:"), ended.log
    assert "clusterjobs: DeepSpeed " in ended.log
    assert "refuses the arguments" in ended.log
    shared = jobs.lab.folder.shared("/fsx")
    assert not (shared / "staged-wrong").exists()
    (end,) = [one for one in ended.log.splitlines() if " ended with exit code " in one]
    assert end.endswith(": not_started"), ended.log
    assert int(end.split(" after ")[1].split()[0]) <= 60, (
        end
    )  # 5 to 20 s, as busy as the machine is


def test_a_job_with_right_arguments_goes_on_and_says_who_accepted_them(jobs: Jobs) -> None:
    ended = jobs.run(spec_of(jobs, "right"))
    assert ended.exit_code == 0, ended.log
    assert "accepts the arguments (" in ended.log
    assert (jobs.lab.folder.shared("/fsx") / "staged-right" / "text").read_text() == "data"


def test_a_check_that_cannot_work_stops_nothing(jobs: Jobs) -> None:
    """A module of the user hides DeepSpeed."""
    folder = jobs.lab.folder.shared("/fsx") / "hiding" / "deepspeed"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "__init__.py").write_text("raise ImportError('another DeepSpeed')")
    ended = jobs.run(spec_of(jobs, "hidden", env={"PYTHONPATH": "/fsx/hiding"}))
    assert ended.exit_code == 0, ended.log
    assert "could not check all arguments: " in ended.log
    assert "another DeepSpeed" in ended.log
    assert json.dumps("accepts the arguments") not in ended.log
