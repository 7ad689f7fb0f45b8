"""submit of sweeps, with stand-ins for Slurm: what is submitted, what is not, and what is said."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import re
import stat
import time
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from stand_in_slurm import StandInSlurm
from stand_in_squeue import write_squeue

from clusterjobs.runs.jobs import folders as submissions
from clusterjobs.runs.jobs.folders import Submission, append_submission
from clusterjobs.runs.submit import sbatch as record

Run = Callable[..., Any]
RECORDS = pathlib.Path("logs/tiny/submissions.jsonl")
LRS = ["1e-3", "3e-4", "1e-4"]


def spec_of(lrs: list[Any] = LRS, **changes: Any) -> dict[str, Any]:
    sweep = {"grid": {"env.LR": lrs}, **changes.pop("sweep", {})}
    return {
        "name": "tiny",
        "cluster": "small",
        "framework": "command",
        "command": ["./train"],
        "env": {"LR": "0"},
        "logs": "logs",
        "sweep": sweep,
        **changes,
    }


def write(spec: dict[str, Any]) -> None:
    pathlib.Path("exp.yaml").write_text(yaml.safe_dump(spec, sort_keys=False))


@pytest.fixture
def slurm(folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> StandInSlurm:
    slurm = StandInSlurm(folder / "bin")
    monkeypatch.setenv("PATH", slurm.path)
    write(spec_of())
    return slurm


def names(clusterjobs: Run, *options: str) -> dict[str, bool]:
    """The points, and whether they would be submitted."""
    data = json.loads(clusterjobs("submit", "exp.yaml", "--dry-run", "--json", *options).out)
    return {one["name"]: one["submitted"] for one in data["points"]}


def states(clusterjobs: Run) -> list[str]:
    data = json.loads(clusterjobs("submit", "exp.yaml", "--dry-run", "--json").out)
    return [one["state"] for one in data["points"]]


def end(name: str, job_id: str, reason: str = "completed") -> None:
    """The folder of a job of that point that has ended."""
    (content,) = (one["content"] for one in plan_points() if one["name"] == name)
    folder = pathlib.Path("logs/tiny", name, job_id)
    folder.mkdir(parents=True)
    (folder / "plan.json").write_text(json.dumps({"point": {"content": content}}))
    (folder / "attempts.jsonl").write_text(json.dumps({"attempt": 1, "reason": reason}) + "\n")


def plan_points() -> list[dict[str, Any]]:
    from clusterjobs.runs.load import load

    points = load(pathlib.Path("exp.yaml")).points
    return [{"name": one.point.name, "content": one.content} for one in points]


def all_names() -> list[str]:
    return [one["name"] for one in plan_points()]


def arrays(slurm: StandInSlurm) -> list[str]:
    """The --array of each call."""
    found = [one for call in slurm.calls() for one in call["words"]]
    return [one.removeprefix("--array=") for one in found if one.startswith("--array=")]


# ------------------------------------------------------------------ what is submitted


def test_a_sweep_is_one_array(clusterjobs: Run, slurm: StandInSlurm) -> None:
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 0, done.err
    assert done.out.splitlines()[-2:] == [
        "submitted job 100: 3 points, --array=0-2 (job.sh)",
        "3 points submitted: 3 missing",
    ]
    (call,) = slurm.calls()
    assert call["script"] == pathlib.Path("generated/job.sh").read_text()
    intent, record = map(json.loads, RECORDS.read_text().splitlines())
    assert (intent["job_id"], record["job_id"]) == (None, 100)
    assert record["points"] == dict(zip("012", all_names(), strict=True))
    assert f"--comment=clusterjobs:{intent['token']}" in call["words"]


def test_a_second_submit_starts_nothing(clusterjobs: Run, slurm: StandInSlurm) -> None:
    clusterjobs("submit", "exp.yaml")
    done = clusterjobs("submit", "exp.yaml", "--all")
    assert (done.code, done.out.splitlines()[-2:]) == (
        0,
        ["nothing to submit", "3 points not submitted: 3 pending"],
    )
    assert len(slurm.calls()) == 1


def test_only_points_without_a_result_are_submitted(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write(spec_of([*LRS, "1e-5", "1e-6"], sweep={"max_running": 2}))
    done, failed, cancelled, lost, _ = all_names()
    end(done, "7")
    end(failed, "8", "failure")
    end(cancelled, "9", "cancelled")
    pathlib.Path("logs/tiny", lost, "10").mkdir(parents=True)
    said = clusterjobs("submit", "exp.yaml")
    assert said.out.splitlines()[-3:] == [
        "submitted job 100: 4 points, --array=1-4%2 (job.sh)",
        "4 points submitted: 1 failed, 1 cancelled, 1 lost, 1 missing",
        "1 point not submitted: 1 completed",
    ]
    assert arrays(slurm) == ["1-4%2"]


@pytest.mark.parametrize(
    ("options", "array"),
    [
        (["--failed"], "1"),
        (["--all"], "0-2"),
        (["--points", "0,2"], "2"),
        (["--points", "0", "--all"], "0"),
        (["--points", "*LR=1e-4*"], "2"),
        (["--points", "1", "--points", "2"], "1-2"),
    ],
)
def test_options_choose_points(
    clusterjobs: Run, slurm: StandInSlurm, options: list[str], array: str
) -> None:
    done, failed, _ = all_names()
    end(done, "7")
    end(failed, "8", "failure")
    assert clusterjobs("submit", "exp.yaml", *options).code == 0
    assert arrays(slurm) == [array]


def test_a_pattern_that_matches_nothing_is_an_error(clusterjobs: Run, slurm: StandInSlurm) -> None:
    done = clusterjobs("submit", "exp.yaml", "--points", "LR=1e-4", "--points", "9")
    assert done.code == 1
    assert done.out == ""
    assert "no point is named 'LR=1e-4'" in done.err
    assert "no point 9" in done.err
    assert slurm.calls() == []


def test_points_that_run_again_are_said_to_have_completed_before(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    for number, name in enumerate(all_names()):
        end(name, str(number + 7))
    said = clusterjobs("submit", "exp.yaml", "--all")
    assert said.out.endswith("\n3 points submitted: 3 that had completed\n")


def test_a_dry_run_gives_reasons_in_words(clusterjobs: Run, slurm: StandInSlurm) -> None:
    cancelled, *_ = all_names()
    clusterjobs("submit", "exp.yaml", "--points", "1")
    end(cancelled, "9", "cancelled")
    said = clusterjobs("submit", "exp.yaml", "--dry-run").out.splitlines()
    assert said[1].split()[1:] == ["cancelled", "yes"]
    assert "None" not in said[2]


def test_a_dry_run_writes_nothing_and_says_why(clusterjobs: Run, slurm: StandInSlurm) -> None:
    done, failed, _ = all_names()
    end(done, "7")
    end(failed, "8", "failure")
    said = clusterjobs("submit", "exp.yaml", "--dry-run")
    assert [line.split(maxsplit=1)[1] for line in said.out.splitlines()[1:4]] == [
        "completed        no: it has a result (--all runs it again)",
        "failed, failure  yes",
        "missing          yes",
    ]
    assert said.out.splitlines()[-1] == "2 of 3 points would be submitted"
    assert not pathlib.Path("generated").exists()
    assert slurm.calls() == []


def test_json_has_jobs_with_their_points(clusterjobs: Run, slurm: StandInSlurm) -> None:
    data = json.loads(clusterjobs("submit", "exp.yaml", "--json").out)
    (job,) = data["jobs"]
    assert job == {
        "job_id": 100,
        "cluster": None,
        "script": "generated/job.sh",
        "array": "0-2",
        "points": {name: f"100_{n}" for n, name in enumerate(all_names())},
    }
    assert [(one["state"], one["submitted"]) for one in data["points"]] == [("missing", True)] * 3


# ------------------------------------------------------------------ after a change of the spec


def test_a_spec_extended_in_the_middle_of_a_list(clusterjobs: Run, slurm: StandInSlurm) -> None:
    first, _, third = all_names()
    end(first, "7")
    end(third, "8")
    clusterjobs("submit", "exp.yaml")
    write(spec_of(["1e-3", "5e-4", "3e-4", "1e-4"]))
    assert states(clusterjobs) == ["completed", "missing", "pending", "completed"]
    clusterjobs("submit", "exp.yaml")
    assert arrays(slurm) == ["1", "1"]


def test_points_in_the_queue_that_the_spec_no_longer_has_are_named(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    assert "no longer" not in clusterjobs("submit", "exp.yaml").out
    _, second, third = all_names()
    write(spec_of(["1e-3", "1e-5"]))
    note = (
        f"2 points in the queue are no longer in the spec: {second}, {third}\n"
        "   to cancel: clusterjobs cancel 100_1 100_2\n"
    )
    assert clusterjobs("submit", "exp.yaml", "--dry-run").out.endswith(note)
    done = clusterjobs("submit", "exp.yaml", "--force")
    assert done.code == 0
    assert done.out.endswith(f"1 point not submitted: 1 pending\n{note}")
    data = json.loads(clusterjobs("submit", "exp.yaml", "--json", "--force").out)
    assert data["former_points"] == [
        {"name": second, "job_id": "100_1"},
        {"name": third, "job_id": "100_2"},
    ]
    slurm.set_queue()
    assert "no longer" not in clusterjobs("submit", "exp.yaml", "--force").out


def test_a_strange_name_in_the_record_does_not_reach_the_terminal(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    clusterjobs("submit", "exp.yaml")
    record = json.loads(RECORDS.read_text().splitlines()[-1])
    record["points"]["2"] = "9-\x1b]0;hit\x07-deadbeef"
    with RECORDS.open("a") as file:
        file.write(json.dumps(record) + "\n")
    write(spec_of(["1e-3", "3e-4"]))
    said = clusterjobs("submit", "exp.yaml", "--dry-run").out
    assert "1 point in the queue is no longer in the spec: 9-" in said
    assert said.replace("\n", "").isprintable()


def test_a_packed_job_that_also_runs_points_of_the_spec_is_not_named(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    packed = {"sweep": {"per_node": 2}, "sbatch": {"exclusive": False}}
    write(spec_of(**packed))
    assert clusterjobs("submit", "exp.yaml").code == 0
    names = all_names()
    write(spec_of(["1e-3"], **packed))
    said = clusterjobs("submit", "exp.yaml", "--dry-run").out
    assert f"1 point in the queue is no longer in the spec: {names[2]}\n" in said


def test_a_point_whose_other_values_changed_runs_again(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    for name in all_names():
        end(name, "7")
    write(spec_of(time_limit="01:00:00", sweep={"max_running": 1}))
    assert states(clusterjobs) == ["completed"] * 3
    write(spec_of(command=["./train", "--more"]))
    assert states(clusterjobs) == ["changed"] * 3
    clusterjobs("submit", "exp.yaml")
    assert arrays(slurm) == ["0-2"]


def test_a_point_whose_config_file_changed_runs_again(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    config = pathlib.Path("ds.json")
    config.write_text('{"gradient_clipping": 1.0}')
    batch = {"micro": 1, "global": 4}
    keys = {"framework": "deepspeed", "command": None, "script": "t.py", "ds_config": "ds.json"}
    spec = spec_of(batch=batch, nodes=2, ranks_per_node=2, **keys)
    write({key: value for key, value in spec.items() if value is not None})
    for name in all_names():
        end(name, "7")
    assert states(clusterjobs) == ["completed"] * 3
    config.write_text('{"gradient_clipping": 2.0}')
    assert states(clusterjobs) == ["changed"] * 3
    (sweep,) = json.loads(clusterjobs("status", "exp.yaml", "--json").out)["sweeps"]
    assert sweep["counts"] == {"changed": 3}


def test_slurm_has_forgotten_the_jobs(clusterjobs: Run, slurm: StandInSlurm) -> None:
    clusterjobs("submit", "exp.yaml")
    slurm.set_queue()
    end(all_names()[1], "101")
    assert states(clusterjobs) == ["lost", "completed", "lost"]
    clusterjobs("submit", "exp.yaml")
    assert arrays(slurm) == ["0-2", "0,2"]


def test_a_folder_that_was_removed_by_hand(clusterjobs: Run, slurm: StandInSlurm) -> None:
    for name in all_names():
        end(name, "7")
    removed = pathlib.Path("logs/tiny", all_names()[1])
    removed.rename("elsewhere")
    assert states(clusterjobs) == ["completed", "missing", "completed"]


# ------------------------------------------------------------------ crashes and refusals


def test_a_job_whose_submit_was_killed_is_found_by_its_comment(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    clusterjobs("submit", "exp.yaml")
    RECORDS.write_text(RECORDS.read_text().splitlines()[0] + '\n{"token": "x", "job_')
    assert states(clusterjobs) == ["pending"] * 3
    assert clusterjobs("submit", "exp.yaml").code == 0
    assert len(slurm.calls()) == 1


def test_a_refused_submission_can_be_repeated(clusterjobs: Run, slurm: StandInSlurm) -> None:
    slurm.refuse("invalid account")
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 1
    assert "sbatch refused the job: invalid account" in done.err
    (slurm.folder / "sbatch-refuses").unlink()
    assert clusterjobs("submit", "exp.yaml").code == 0
    assert arrays(slurm) == ["0-2"]


def test_points_of_different_shape_are_several_jobs(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write(spec_of(sweep={"grid": {"env.LR": LRS, "nodes": [1, 2]}, "max_running": 2}))
    done = clusterjobs("submit", "exp.yaml")
    assert "max_running: 2 holds for each of the 2 jobs" in done.err
    assert arrays(slurm) == ["0,2,4%2", "1,3,5%2"]
    assert "  job-1.sh  3 points: nodes: 1" in done.out
    assert sorted(one.name for one in pathlib.Path("generated").iterdir()) == [
        "cluster.yaml",
        "job-1.sh",
        "job-2.sh",
        "manifest.json",
        "points.csv",
    ]


def test_a_comment_is_kept(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write(spec_of(sbatch={"comment": "project x"}))
    clusterjobs("submit", "exp.yaml", "--points", "0")
    clusterjobs("submit", "exp.yaml", "--points", "1", "--", "--comment", "mine")
    comments = [row["%k"] for row in slurm.queue()]
    assert [re.sub(":.*", "", one) for one in comments] == [
        "project x clusterjobs",
        "mine clusterjobs",
    ]


@pytest.mark.parametrize("option", ["--array=1", "-a1", "-Mother", "--clusters=other"])
def test_options_that_would_lose_points_are_refused(
    clusterjobs: Run, slurm: StandInSlurm, option: str
) -> None:
    done = clusterjobs("submit", "exp.yaml", "--", option)
    assert (done.code, slurm.calls()) == (1, [])
    assert f"{option} cannot be given for a sweep" in done.err


def test_an_array_that_was_submitted_by_hand_is_a_doubt(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    row = {"%A": "5", "%F": "5", "%K": "0", "%T": "PENDING", "%j": "tiny", "%i": "5_0"}
    slurm.set_queue({**row, "%U": str(os.getuid())})
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 1
    assert "job 5 in the queue has the same name, but was submitted with plain sbatch" in done.err
    assert clusterjobs("submit", "exp.yaml", "--yes").code == 0


def test_arrays_are_split_at_slurms_limit(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write(spec_of(list(range(8))))
    slurm.configure(MaxArraySize="3")
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 0, done.err
    assert arrays(slurm) == ["0-2", "0-2", "0-1"]
    scripts = [pathlib.Path(f"generated/job-{n}.sh").read_text() for n in (1, 2, 3)]
    assert [call["script"] for call in slurm.calls()] == scripts
    assert clusterjobs("submit", "exp.yaml").out.endswith("8 points not submitted: 8 pending\n")
    assert states(clusterjobs) == ["pending"] * 8


def test_more_jobs_than_slurm_takes(clusterjobs: Run, slurm: StandInSlurm) -> None:
    slurm.configure(MaxJobCount="2")
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 1
    assert "3 tasks are too many: Slurm takes 2 jobs at a time (MaxJobCount), and has 0" in done.err
    assert slurm.calls() == []


def test_more_than_1000_points_need_a_yes(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write(spec_of(list(range(1001))))
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 1
    assert "1,001 points would be submitted" in done.err
    assert slurm.calls() == []
    assert clusterjobs("submit", "exp.yaml", "--yes").code == 0
    assert arrays(slurm) == ["0-1000"]


def test_hidden_jobs_of_others_are_not_started_twice(clusterjobs: Run, slurm: StandInSlurm) -> None:
    clusterjobs("submit", "exp.yaml", "--points", "0-1")
    lines = RECORDS.read_text().splitlines()
    records = [{**json.loads(line), "user": "bob"} for line in lines]
    RECORDS.write_text("".join(f"{json.dumps(one)}\n" for one in records))
    slurm.set_queue()
    slurm.configure(PrivateData="accounts,jobs")
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 1
    assert "bob has submitted 2 points of these, and this Slurm hides the jobs" in done.err
    assert clusterjobs("submit", "exp.yaml", "--points", "2").code == 0


def test_a_folder_that_is_not_here(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write(spec_of(logs="/nosuchdisk/logs"))
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 1
    assert "is in /nosuchdisk/logs, and there is no /nosuchdisk here" in done.err
    assert slurm.calls() == []


def test_without_slurm(
    clusterjobs: Run, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(folder))  # Slurm may be installed in /usr/bin
    write(spec_of())
    assert names(clusterjobs) == dict.fromkeys(all_names(), True)
    done = clusterjobs("submit", "exp.yaml")
    assert (done.code, done.err.splitlines()[-2]) == (1, "there is no squeue here")


def test_a_group_shares_the_folders(clusterjobs: Run, slurm: StandInSlurm) -> None:
    logs = pathlib.Path("logs")
    logs.mkdir()
    logs.chmod(0o2775)
    clusterjobs("submit", "exp.yaml")
    made = [logs / "tiny", logs / "tiny" / all_names()[0], RECORDS]
    assert all(one.stat().st_mode & stat.S_IWGRP for one in made)


@pytest.mark.parametrize("option", ["--failed", "--all", "--points=1"])
def test_options_of_sweeps_need_one(clusterjobs: Run, slurm: StandInSlurm, option: str) -> None:
    spec = spec_of()
    del spec["sweep"]
    write(spec)
    done = clusterjobs("submit", "exp.yaml", option)
    assert done.code == 2
    assert "exp.yaml has no sweep" in done.err


def test_a_dry_run_without_a_sweep_shows_the_job_and_writes_nothing(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    spec = spec_of()
    del spec["sweep"]
    write(spec)
    said = clusterjobs("submit", "exp.yaml", "--dry-run")
    assert said.code == 0
    assert "it would be submitted, with these files in generated: " in said.out
    assert "job.sh" in said.out
    data = json.loads(clusterjobs("submit", "exp.yaml", "--dry-run", "--json").out)
    assert data == {"job_id": None, "script": "generated/job.sh"}
    assert not pathlib.Path("generated").exists()


HOSTILE = [
    "a b",
    "'",
    '"',
    "$$(touch hit)",
    "`touch hit`",
    "é\n",
    "../x",
    "a/b",
    "%j",
    "*",
    "-n",
    "",
]


def test_hostile_values(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write(spec_of(HOSTILE))
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 0, done.err
    assert clusterjobs("submit", "exp.yaml").out.startswith("sweep:")
    assert len(slurm.calls()) == 1
    for name in all_names():
        end(name, "7")
    slurm.set_queue()
    assert states(clusterjobs) == ["completed"] * len(HOSTILE)
    assert not pathlib.Path("hit").exists()


def test_a_full_disk_after_sbatch_loses_nothing(
    clusterjobs: Run, slurm: StandInSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = []

    def append(file: Any, one: Submission) -> None:
        written.append(one)
        if len(written) == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        append_submission(file, one)

    monkeypatch.setattr(record, "append_submission", append)
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 1
    assert "job 100 was submitted, but" in done.err
    assert states(clusterjobs) == ["pending"] * 3
    assert clusterjobs("submit", "exp.yaml").out.endswith("3 points not submitted: 3 pending\n")


def test_a_full_disk_before_sbatch_submits_nothing(
    clusterjobs: Run, slurm: StandInSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_descriptor: int, _data: bytes) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    write = os.write
    monkeypatch.setattr(submissions.os, "write", full)
    done = clusterjobs("submit", "exp.yaml")
    monkeypatch.setattr(submissions.os, "write", write)
    assert (done.code, slurm.calls(), RECORDS.read_text()) == (1, [], "")
    assert "submissions.jsonl: No space left on device" in done.err


def test_a_record_that_is_too_large_starts_nothing_twice(
    clusterjobs: Run, slurm: StandInSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusterjobs("submit", "exp.yaml")
    monkeypatch.setattr(submissions, "MOST", 100)
    done = clusterjobs("submit", "exp.yaml")
    assert (done.code, len(slurm.calls())) == (1, 1)
    assert "so not all of it is read" in done.err


@pytest.mark.parametrize("option", ["--arr=0-1", "--cluster=b", "--test"])
def test_shortened_options_are_refused_too(
    clusterjobs: Run, slurm: StandInSlurm, option: str
) -> None:
    done = clusterjobs("submit", "exp.yaml", "--", option)
    assert (done.code, slurm.calls()) == (1, [])
    assert f"{option} cannot be given for a sweep" in done.err


def test_another_cluster_in_the_environment_is_refused(
    clusterjobs: Run, slurm: StandInSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_CLUSTERS", "b")
    done = clusterjobs("submit", "exp.yaml")
    assert (done.code, slurm.calls()) == (1, [])
    assert "SBATCH_CLUSTERS is b" in done.err


def test_the_id_of_an_earlier_cluster_is_another_job(clusterjobs: Run, slurm: StandInSlurm) -> None:
    clusterjobs("submit", "exp.yaml")
    other = [{**row, "%k": "clusterjobs:0123456789abcdef"} for row in slurm.queue()]
    write_squeue(slurm.folder, *other)
    assert states(clusterjobs) == ["lost"] * 3
    write_squeue(slurm.folder, *({**row, "%k": "", "%V": "2001-01-01T00:00:00"} for row in other))
    assert states(clusterjobs) == ["lost"] * 3
    now = time.strftime("%Y-%m-%dT%H:%M:%S")
    changed = [{**row, "%k": "changed by somebody", "%V": now} for row in other]
    write_squeue(slurm.folder, *changed)
    assert states(clusterjobs) == ["pending"] * 3


def test_max_running_of_two_submissions_is_said(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write(spec_of(sweep={"max_running": 2}))
    first = clusterjobs("submit", "exp.yaml", "--points", "0")
    second = clusterjobs("submit", "exp.yaml")
    said = "max_running: 2 holds for each submission: 1 point of an earlier one may run beside"
    assert (said in first.err, said in second.err) == (False, True)
    assert arrays(slurm) == ["0%2", "1-2%2"]


@pytest.mark.parametrize("size", ["0", "1"])
def test_a_slurm_without_arrays(clusterjobs: Run, slurm: StandInSlurm, size: str) -> None:
    slurm.configure(MaxArraySize=size, MaxJobCount="10000")
    done = clusterjobs("submit", "exp.yaml")
    assert (done.code, len(slurm.calls()), arrays(slurm)) == (0, 3, []), done.err
    assert states(clusterjobs) == ["pending"] * 3


def test_points_of_another_spec_in_the_queue_are_named(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    clusterjobs("submit", "exp.yaml")
    same = clusterjobs("submit", "exp.yaml")
    write(spec_of(command=["./other"]))
    other = clusterjobs("submit", "exp.yaml")
    said = "3 points in the queue: submitted from another spec, or an earlier one"
    assert (said in same.err, said in other.err, len(slurm.calls())) == (False, True, 1)
