"""A mount of the batch host that is dead before the preflight, in a real Slurm.

What hangs is a `mkdir` that stands in for the real one: it sleeps where the mount would not answer,
and hears no TERM. The script's minute is made two seconds.
"""

from __future__ import annotations

import json
import os

import pytest
from rendered_jobs import Ended, Jobs

pytestmark = pytest.mark.lab

MKDIR = """\
#!/bin/bash
case $* in *"$DEAD"*) trap '' TERM; sleep 300 ;; esac
exec /bin/mkdir "$@"
"""


def ended(jobs: Jobs, dead: str, **keys: object) -> tuple[Ended, str]:
    """A job to which the folder that holds `dead` does not answer; and what Slurm's own log has."""
    program = jobs.lab.folder.shared("/fsx") / "bin" / "mkdir"
    program.parent.mkdir(exist_ok=True)
    program.write_text(MKDIR)
    program.chmod(0o755)
    name = "dead" + dead.replace("/", "-")
    spec = jobs.spec(name, framework="command", nodes=1, time_limit="00:30:00", **keys)
    script = jobs.render(spec)
    text = script.read_text()
    assert text.count("-t 60") == 1
    script.write_text(text.replace("-t 60", "-t 2"))
    job_id = jobs.submit(script, PATH=f"/fsx/bin:{os.environ['PATH']}", DEAD=dead)
    told = jobs.end(job_id, name)  # long before its time limit
    (log,) = script.parent.glob(f"*-{job_id}.out")
    return told, log.read_text()


def reasons(jobs: Jobs, job_id: str) -> list[str]:
    file = jobs.lab.folder.shared("/fsx") / "logs" / job_id / "attempts.jsonl"
    return [json.loads(line)["reason"] for line in file.read_text().splitlines()]


def test_a_job_whose_own_folder_does_not_answer_ends_and_names_it(jobs: Jobs) -> None:
    told, log = ended(jobs, "/fsx/logs/")
    assert told.exit_code == 1, log
    command = f"run_carried make_safe_folder.sh /fsx/logs/{told.job_id} job"
    assert log == f"clusterjobs: no answer in 60 s: {command}\n"
    assert told.ranks == {}


def test_checkpoints_that_do_not_answer_end_the_job_once(jobs: Jobs) -> None:
    keys = {"checkpoints": {"path": "/fsx/saved"}, "restarts": {"failure": 3}}
    told, log = ended(jobs, "/fsx/saved", **keys)
    assert told.exit_code == 1, log
    assert "no answer in 60 s: run_carried make_safe_folder.sh /fsx/saved closed" in told.log
    assert reasons(jobs, told.job_id) == ["not_started"]
    assert told.ranks == {}


def test_a_folder_that_may_not_be_made_ends_the_job_once(jobs: Jobs) -> None:
    (jobs.lab.folder.shared("/fsx") / "file").touch()
    keys = {"checkpoints": {"path": "/fsx/file/below"}, "restarts": {"failure": 3}}
    told, log = ended(jobs, "nowhere", **keys)
    assert told.exit_code == 1, log
    assert "cannot make /fsx/file/below" in told.log
    assert "Not a directory" in told.log
    assert reasons(jobs, told.job_id) == ["not_started"]
