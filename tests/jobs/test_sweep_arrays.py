"""A sweep on a real Slurm: each task gets its own values, and max_failed holds those that wait."""

from __future__ import annotations

import json
import pathlib
from typing import Any

import pytest

from clusterjobs.lab.lab import until

pytestmark = pytest.mark.lab

# Writes down its value, with the text that a shell would run; the first two points fail.
TASK = """
printf '{"how": "%s", "task": %s}' "$2" "$SLURM_ARRAY_TASK_ID" > "$CLUSTERJOBS_RESULT"
[[ $2 != fails* ]] || exit 3
"""
VALUES = ["fails 1", "fails 2", "it's $(date)", "last"]
WRITTEN = [value.replace("$", "$$") for value in VALUES]  # as a spec has a dollar that is one


def results(folder: pathlib.Path) -> dict[str, Any]:
    """Point -> its result; the folder of a point has a folder for each of its jobs."""
    found = folder.glob("*/*/result.json")
    return {one.parents[1].name[:4]: json.loads(one.read_text()) for one in found}


def test_the_tasks_after_too_many_failures_are_held_until_they_are_released(jobs) -> None:
    spec = jobs.spec(
        "swept",
        nodes=1,
        ranks_per_node=1,
        framework="command",
        command=["bash", "-c", TASK, "task", "{{ job.id }}", "{{ env.HOW }}"],
        env={"HOW": ""},
        sweep={"grid": {"env.HOW": WRITTEN}, "max_running": 1, "max_failed": 2},
    )
    array = jobs.submit(jobs.render(spec))
    folder = jobs.lab.folder.shared("/fsx") / "logs" / "swept"
    codes = [jobs.lab.wait(f"{array}_{index}", 120).exit_code for index in (0, 1)]
    assert codes == [3, 3]

    def held() -> bool:
        options = ["--noheader", "--array", f"--job={array}", "--format=%K %r"]
        lines = jobs.lab.run(["squeue", *options]).stdout.split("\n")
        return sorted(filter(None, lines)) == ["2 JobHeldUser", "3 JobHeldUser"]

    until(held, 120, lambda: "the other tasks are not held")
    assert set(results(folder)) == {"0000", "0001"}
    jobs.lab.run(["scontrol", "release", f"{array}_[2-3]"])
    codes = [jobs.lab.wait(f"{array}_{index}", 120).exit_code for index in (2, 3)]
    assert codes == [0, 0]
    expected = {f"{n:04}": {"how": value, "task": n} for n, value in enumerate(VALUES)}
    assert results(folder) == expected
