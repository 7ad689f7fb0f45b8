"""Two specs whose jobs write into one `logs` folder: status and logs show each its own jobs."""

from __future__ import annotations

import json

import pytest

from clusterjobs.cli import main

pytestmark = pytest.mark.lab


def test_each_spec_sees_its_own_jobs(jobs, monkeypatch, capsys) -> None:
    ids = {}
    for name in ("one", "two"):
        keys = {"command": ["echo", f"trained {name}"], "logs": "${SHARED}/both"}
        script = jobs.render(jobs.spec(name, framework="command", **keys))
        ids[name] = jobs.submit(script, SHARED="/fsx")
    for job_id in ids.values():
        assert jobs.lab.wait(job_id, 60).exit_code == 0
    shared = jobs.lab.folder.shared("/fsx")
    assert {path.name for path in (shared / "both").iterdir()} == set(ids.values())
    monkeypatch.setenv("SHARED", str(shared))  # where this machine sees the lab's /fsx
    for name, job_id in ids.items():
        spec = str(jobs.folder / name / "exp.yaml")
        capsys.readouterr()
        assert main.run(["status", spec, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)["jobs"]
        assert [job["job_id"] for job in found] == [job_id]
        assert found[0]["attempts"][0]["reason"] == "completed"
        assert main.run(["logs", spec]) == 0
        assert f"trained {name}" in capsys.readouterr().out
