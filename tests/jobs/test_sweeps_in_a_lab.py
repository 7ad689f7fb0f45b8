"""Sweeps on a real Slurm: two people submit at the same moment, and submit again."""

from __future__ import annotations

import collections
import json
import os
import pathlib
import subprocess
import sys
from typing import Any

import pytest
import yaml
from rendered_jobs import Jobs

from clusterjobs.lab.lab import until

pytestmark = pytest.mark.lab

COMMAND = [sys.executable, "-c", "from clusterjobs.cli.main import main; main()", "submit"]
VALUES = ["1", "2", "bad", "$(touch /fsx/hit)"]
WRITTEN = [value.replace("$", "$$") for value in VALUES]  # as a spec has a dollar that is one


class LabSweep:
    """A sweep whose points write their values into a file of the lab's /fsx."""

    def __init__(self, jobs: Jobs, name: str) -> None:
        self.lab, self.folder, self.name = jobs.lab, jobs.folder, name
        (self.folder / "state/clusterjobs/labs").mkdir(parents=True)
        (self.folder / "state/clusterjobs/labs/this").symlink_to(self.lab.folder.path)
        self.environment = {
            **os.environ,
            "PATH": f"{self.lab.folder / 'bin'}:{os.environ['PATH']}",
            "CLUSTERJOBS_LAB": "this",
            "XDG_STATE_HOME": str(self.folder / "state"),
        }
        fails = f'[ "$VALUE" != bad ] || [ -e /fsx/{name}-good ]'
        run = f'printf "%s\\n" "$VALUE" >> /fsx/{name}; {fails}'
        spec = {
            "name": name,
            "cluster": "small",
            "framework": "command",
            "command": ["bash", "-c", run],
            "nodes": 1,
            "ranks_per_node": 1,
            "env": {"VALUE": "0"},
            "logs": "/fsx/logs",
            "sweep": {"grid": {"env.VALUE": WRITTEN}},
        }
        (self.folder / f"{name}.yaml").write_text(yaml.safe_dump(spec))

    def start(self, output: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*COMMAND, f"{self.name}.yaml", "--json", "-o", output],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            text=True,
        )

    def submit_twice(self) -> list[dict[str, Any]]:
        """What two submits at the same moment say; of both, the jobs."""
        running = [self.start("one"), self.start("other")]
        said = [json.loads(one.communicate(timeout=120)[0]) for one in running]
        return [job for one in said for job in one["jobs"]]

    def wait(self) -> None:
        """Until no job is in the queue."""
        ask = ["squeue", "--noheader"]
        until(lambda: not self.lab.run(ask).stdout.strip(), 240, lambda: self.lab.run(ask).stdout)

    def ran(self) -> collections.Counter[str]:
        """The values of the points that have run, and how often."""
        return collections.Counter((self.fsx / self.name).read_text().splitlines())

    @property
    def fsx(self) -> pathlib.Path:
        return pathlib.Path(self.lab.folder.shared("/fsx"))


def check_round(jobs: Jobs, name: str) -> LabSweep:
    """Two submits at once: each point runs once."""
    sweep = LabSweep(jobs, name)
    (job,) = sweep.submit_twice()
    assert len(job["points"]) == len(VALUES)
    sweep.wait()
    assert sweep.ran() == dict.fromkeys(VALUES, 1)
    return sweep


def test_two_submits_and_a_third_for_the_failed_point(jobs: Jobs) -> None:
    sweep = check_round(jobs, "pair")
    (sweep.fsx / "pair-good").touch()
    (job,) = sweep.submit_twice()
    assert list(job["points"]) == [name for name in job["points"] if "VALUE=bad" in name]
    sweep.wait()
    assert sweep.ran() == {**dict.fromkeys(VALUES, 1), "bad": 2}
    assert sweep.submit_twice() == []
    assert not (sweep.fsx / "hit").exists()


@pytest.mark.faults
@pytest.mark.parametrize("number", range(20))
def test_two_submits_20_times(jobs: Jobs, number: int) -> None:
    check_round(jobs, f"round-{number}")
