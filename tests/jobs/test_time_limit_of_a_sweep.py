"""Points of a sweep that reach a real time limit save, start again and complete."""

from __future__ import annotations

import json
import pathlib
from collections import Counter

import pytest
from faults import SAVE_EVERY, STEPS, Running
from rendered_jobs import Jobs
from test_faults import lost_steps

pytestmark = [pytest.mark.lab, pytest.mark.faults]


def only_file(fsx: pathlib.Path, index: int, name: str) -> str:
    """The text of a file in the point's only job folder."""
    (file,) = fsx.glob(f"logs/limited/{index:04}-*/*/{name}")
    return file.read_text(errors="replace")


def test_two_points_at_a_real_time_limit(jobs: Jobs, fault_counts: Counter[str]) -> None:
    fsx = jobs.lab.folder.shared("/fsx")
    folder = "/fsx/limited/{{ point.index }}"
    options = ["--save-every", str(SAVE_EVERY), "--steps", "150", "--seconds", "{{ env.PACE }}"]
    spec = jobs.spec(
        "limited",
        framework="command",
        command=["python3", str(STEPS), folder, *options],
        nodes=1,
        env={"PACE": "0"},
        time_limit="00:03:00",
        checkpoints={"path": f"{folder}/checkpoints", "marker": "latest"},
        restarts={"time_limit": 5, "grace_seconds": 5},
        sweep={"grid": {"env.PACE": ["0.8", "0.9"]}},
    )
    array = jobs.submit(jobs.render(spec))
    for index in (0, 1):
        end = jobs.lab.wait(f"{array}_{index}", 500)
        job = Running(jobs.lab, f"{array}_{index}", fsx / "limited" / str(index))
        log = only_file(fsx, index, "job.log")
        lines = map(json.loads, only_file(fsx, index, "attempts.jsonl").splitlines())
        reasons = [*{one["attempt"]: one["reason"] for one in lines}.values()]
        lost = lost_steps(job)
        fault_counts["tried"] += 1
        fault_counts["lost_steps"] += sum(map(abs, lost))
        fault_counts["wrong_records"] += reasons[-1] != "completed"
        assert end.exit_code == 0, log
        assert set(reasons[:-1]) == {"time_limit"}, log
        assert reasons[-1] == "completed", log
        assert set(lost) == {0}, log
        assert job.trace()[-1][-1] == 150
