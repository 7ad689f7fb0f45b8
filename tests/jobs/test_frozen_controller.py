"""A frozen slurmctld: a request that it has not answered is one job in the end."""

from __future__ import annotations

import json
import os
import pathlib
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest
import yaml
from rendered_jobs import Jobs

from clusterjobs.lab.lab import until
from clusterjobs.runs.jobs.folders import SUBMISSIONS
from clusterjobs.runs.submit.lock import LOCK
from clusterjobs.slurm.queue import known_jobs

pytestmark = [pytest.mark.lab, pytest.mark.slow]

SUBMIT = [sys.executable, "-c", "from clusterjobs.cli.main import main; main()"]


def controller(jobs: Jobs) -> int:
    """The process of this lab's slurmctld."""
    found = []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            command = (process / "cmdline").read_bytes().split(b"\0")
            mounts = (process / "mountinfo").read_text()
        except OSError:
            continue
        is_daemon = any(one.endswith(b"slurmctld") for one in command[:4])
        if is_daemon and str(jobs.lab.folder.path) in mounts:
            found.append(int(process.name))
    assert found, "no slurmctld"
    return min(found)


@pytest.fixture
def frozen(jobs: Jobs) -> Iterator[int]:
    process = controller(jobs)
    os.kill(process, signal.SIGSTOP)
    yield process
    os.kill(process, signal.SIGCONT)


def test_submits_during_a_freeze_are_one_job(
    jobs: Jobs, frozen: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in jobs.lab.environment().items():
        monkeypatch.setenv(name, value)
    folder = jobs.folder / "frozen"
    folder.mkdir()
    logs = jobs.folder / "logs"
    keys = {"framework": "command", "nodes": 1, "ranks_per_node": 1, "command": ["true"]}
    spec = jobs.spec("frozen", logs=str(logs), **keys)
    (folder / "exp.yaml").write_text(yaml.safe_dump(spec))

    def submit() -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*SUBMIT, "submit", "exp.yaml", "--force", "--json"],
            cwd=folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    first = submit()
    until((logs / SUBMISSIONS).exists, 60, lambda: "no intent")
    _, said = first.communicate(timeout=400)
    assert first.returncode == 1
    assert "Slurm does not answer: it is not known whether it has taken the job" in said
    second = submit()
    until((logs / LOCK).exists, 60, lambda: "the second does not ask")
    os.kill(frozen, signal.SIGCONT)
    out, said = second.communicate(timeout=400)
    assert second.returncode == 0, said
    (job,) = (one for one in known_jobs() or () if one.name == "frozen")
    assert json.loads(out)["job_id"] == int(job.job_id)
    assert f"job {job.job_id} is this job: an earlier submit got no answer from Slurm" in said
