"""The Python API: load, render, submit, and what is known of the job; with stand-ins for Slurm."""

from __future__ import annotations

import json
import logging
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from stand_in_slurm import StandInSlurm

import clusterjobs as api

SWEEP = {"grid": {"env.LR": ["1e-3", "3e-4"]}}


def write(**changes: Any) -> pathlib.Path:
    """The spec with these changes; a key that is None is left out."""
    spec = {
        "name": "tiny",
        "cluster": "small",
        "framework": "command",
        "command": ["./train"],
        "env": {"LR": "0"},
        "logs": "logs",
        **changes,
    }
    file = pathlib.Path("exp.yaml")
    file.write_text(yaml.safe_dump({k: v for k, v in spec.items() if v is not None}))
    return file


@pytest.fixture
def slurm(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> StandInSlurm:
    slurm = StandInSlurm(folder / "bin")
    monkeypatch.setenv("PATH", slurm.path)
    return slurm


def end(folder: pathlib.Path, reason: str, code: int = 0, result: object = None) -> None:
    """What a job leaves in its folder."""
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text("{}")
    (folder / "job.log").write_text(f"it {reason}\n")
    attempt = {"attempt": 1, "reason": reason, "exit_code": code}
    (folder / "attempts.jsonl").write_text(json.dumps(attempt) + "\n")
    if result is not None:
        (folder / "result.json").write_text(json.dumps(result))


# ------------------------------------------------------------------ load and render


@pytest.mark.parametrize("changes", [{"nodes": 2, "env.LR": "1"}, ["nodes=2", 'env.LR="1"']])
def test_values_are_changed_as_by_set(folder: pathlib.Path, changes: Any) -> None:
    run = api.load(write(), set=changes)
    (point,) = run.points
    assert (run.name, point.name, point.index, dict(point.values)) == ("tiny", "tiny", 0, {})
    assert point.plan.placement.shape.nodes == 2
    assert ("LR", "1") in {(one.name, one.value) for one in point.plan.environment.variables}
    assert run.inputs.settings == ("nodes=2", 'env.LR="1"')


@pytest.mark.parametrize("text", ["1e-3", "yes", "a: b", "", "null", "ä\n"])
def test_a_text_stays_a_text(folder: pathlib.Path, text: str) -> None:
    run = api.load(write(), set={"env.LR": text})
    assert run.spec.env["LR"] == text


def test_render_writes_what_the_command_writes(
    folder: pathlib.Path, clusterjobs: Callable[..., Any]
) -> None:
    run = api.load(str(write(sweep=SWEEP)))
    assert [point.values for point in run.points] == [{"env.LR": 1e-3}, {"env.LR": 3e-4}]
    assert run.render("out") == dict.fromkeys(run.outputs(), "new")
    assert {"job.sh", "manifest.json", "points.csv"} <= {*run.outputs()}
    assert (folder / "out/job.sh").read_text() == run.outputs()["job.sh"]
    assert clusterjobs("render", "exp.yaml", "-o", "out", "--check").code == 0
    assert run.render("out") == {}


def test_problems_are_those_of_the_command(
    folder: pathlib.Path, clusterjobs: Callable[..., Any]
) -> None:
    with pytest.raises(api.InputError) as raised:
        api.load(write(nodes=0, colour="red"))
    assert {one.path for one in raised.value.problems} == {"nodes", "colour"}
    printed = clusterjobs("render", "exp.yaml").err
    assert all(one.what in printed for one in raised.value.problems)
    write(command=None, framework="torchrun", script="none.py", workdir=str(folder))
    warned = api.load("exp.yaml").problems
    printed = clusterjobs("render", "exp.yaml").err
    assert {one.path for one in warned if one.warning} >= {"script"}
    assert all(one.what in printed for one in warned)


def test_site_replaces_the_folders_that_are_found(folder: pathlib.Path) -> None:
    (folder / "site").mkdir()
    (folder / "site/defaults.yaml").write_text("all:\n  time_limit: 01:00:00\n")
    assert api.load(write(), site="site").plan.job.time_limit == "01:00:00"
    with pytest.raises(api.InputError, match="no site folder"):
        api.load("exp.yaml", site="none")


# ------------------------------------------------------------------ jobs


def test_a_job_is_followed_from_the_queue_to_its_end(slurm: StandInSlurm) -> None:
    job = api.load(write()).submit("out")
    (call,) = slurm.calls()
    assert job.ids == (call["job"],)
    assert (job.state, job.counts, job.log) == ("pending", {"pending": 1}, "")
    with pytest.raises(TimeoutError, match="1 pending after 0 s"):
        job.wait(timeout=0)
    slurm.set_queue()
    assert job.state == "lost"
    end(pathlib.Path("logs") / job.ids[0], "completed")
    assert (job.wait(), job.log) == ("completed", "it completed\n")
    assert [one.reason for one in job.points] == [None]


def test_a_failed_job_has_its_exit_code(slurm: StandInSlurm) -> None:
    job = api.load(write()).submit("out")
    slurm.set_queue()
    end(pathlib.Path("logs") / job.ids[0], "failure", 7)
    (point,) = job.points
    assert (job.wait(), point.reason, point.exit_code) == ("failed", "failure", 7)
    assert point.folder == pathlib.Path("logs") / job.ids[0]


def test_a_report_says_what_the_job_achieved(
    slurm: StandInSlurm, clusterjobs: Callable[..., Any]
) -> None:
    job = api.load(write()).submit("out")
    with pytest.raises(api.InputError, match="tiny has no log yet: it is pending"):
        job.report()
    folder = pathlib.Path("logs") / job.ids[0]
    end(folder, "completed", result={"loss": {"eval": 0.1}})
    slurm.set_queue()
    assert job.result == {"loss.eval": 0.1}
    lines = [f"step {step}/40 loss {4 / step:.3f} samples/s 320.0\n" for step in range(1, 41)]
    (folder / "job.log").write_text("".join(lines))
    report = job.report()
    assert (report["steps"], report["samples_per_second"]) == (40, 320.0)
    (printed,) = json.loads(clusterjobs("report", str(folder), "--json").out)["runs"]
    assert report["spread"] == printed["spread"]
    assert report["series"] == printed["series"]


def test_a_job_that_was_cancelled_while_it_waited(slurm: StandInSlurm) -> None:
    job = api.load(write()).submit("out")
    slurm.set_queue(*({**row, "%T": "CANCELLED"} for row in slurm.queue()))
    (point,) = job.points
    assert (point.state, point.reason) == ("cancelled", "before it started")


def test_tasks_of_an_array_are_points_of_the_job(slurm: StandInSlurm) -> None:
    job = api.load(write(sbatch={"array": "0-1"})).submit("out")
    assert [point.name for point in job.points] == [f"{job.ids[0]}_0", f"{job.ids[0]}_1"]
    assert job.counts == {"pending": 2}
    with pytest.raises(api.InputError, match="has 2 points"):
        _ = job.log


def test_a_sweep_is_one_job_with_a_result_for_each_point(
    slurm: StandInSlurm, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.INFO, "clusterjobs")
    run = api.load(write(sweep=SWEEP))
    job = run.submit("out")
    assert job.counts == {"pending": 2}
    slurm.set_queue()
    for number, point in enumerate(run.points):
        loss = {"loss": 2.5 + number, "eval": {"f1": 0.5}}
        end(pathlib.Path("logs/tiny") / point.name / str(900 + number), "completed", result=loss)
    assert job.wait(timeout=60) == "completed"
    best = min(job.points, key=lambda point: point.result["loss"])
    assert (best.values, best.result) == ({"env.LR": 1e-3}, {"loss": 2.5, "eval.f1": 0.5})
    assert best.log == "it completed\n"
    assert capfd.readouterr() == ("", "")  # a program's own output is not disturbed
    assert "2 completed" in caplog.messages


def test_only_some_points_are_submitted(slurm: StandInSlurm) -> None:
    run = api.load(write(sweep=SWEEP))
    job = run.submit("out", points=["1"])
    assert [point.index for point in job.points] == [1]
    (call,) = slurm.calls()
    assert call["tasks"] == ["1"]
    again = run.submit("out")
    assert again.counts == {"pending": 2}  # one of them was there already
    with pytest.raises(api.InputError, match="no point 7"):
        run.submit("out", points=["7"])


def test_points_of_a_job_without_a_sweep_are_refused(slurm: StandInSlurm) -> None:
    with pytest.raises(api.InputError, match="has no sweep"):
        api.load(write()).submit("out", failed=True)
    assert not slurm.calls()


def test_a_broken_result_is_an_error(slurm: StandInSlurm) -> None:
    run = api.load(write(sweep=SWEEP))
    job = run.submit("out")
    slurm.set_queue()
    folder = pathlib.Path("logs/tiny") / run.points[0].name / "900"
    end(folder, "completed")
    (folder / "result.json").write_text("{")
    with pytest.raises(api.InputError, match=r"result\.json is no JSON"):
        _ = job.points[0].result
    assert not job.points[1].result


# ------------------------------------------------------------------ the package


def test_names_are_imported_when_they_are_used() -> None:
    code = (
        "import sys, clusterjobs; before = {one for one in sys.modules if 'clusterjobs.' in one}; "
        "clusterjobs.load; print(before, 'clusterjobs.runs.load' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "{'clusterjobs.version'} True\n"
    assert all(getattr(api, name) for name in api.__all__)
    with pytest.raises(AttributeError, match="no attribute 'lod'"):
        _ = api.lod


def test_the_package_is_a_program() -> None:
    command = [sys.executable, "-m", "clusterjobs", "--version"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith(f"clusterjobs, version {api.__version__}\n")
