"""submit of specs that need others: what is submitted, in which order, and what waits for what."""

from __future__ import annotations

import errno
import io
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from stand_in_slurm import StandInSlurm
from stand_in_squeue import write_squeue

from clusterjobs.runs.submit import one_spec
from clusterjobs.runs.submit import sbatch as record

SPEC = "name: {name}\ncluster: small\nframework: command\ncommand: ['true']\nlogs: logs\n{more}"
SWEEP = "args: {lr: 1}\nsweep: {grid: {args.lr: [1, 2, 3]}}\n"
SWEPT = SPEC.replace("['true']", "[echo, '{{{{ args.lr }}}}']")

REFUSES_AN_ACCOUNT = """\
#!/bin/bash
script=$(cat)
[[ $script != *--account* ]] || { echo "no account" >&2; exit 1; }
exec "${0%/*}/real-sbatch" "$@" <<< "$script"
"""
CLUSTERJOBS = str(pathlib.Path(sys.executable).with_name("clusterjobs"))

Run = Callable[..., Any]


@pytest.fixture
def slurm(
    folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> StandInSlurm:
    found = StandInSlurm(tmp_path / "bin")
    monkeypatch.setenv("PATH", found.path)
    monkeypatch.delenv("CLUSTERJOBS_LAB", raising=False)
    return found


def write(name: str, more: str = "", spec: str = SPEC) -> None:
    pathlib.Path(f"{name}.yaml").write_text(spec.format(name=name, more=more))


def submit(clusterjobs: Run, spec: str, *options: str) -> dict[str, Any]:
    done = clusterjobs("submit", f"{spec}.yaml", "--json", *options)
    assert done.code == 0, done.err
    found: dict[str, Any] = json.loads(done.out)
    return found


def calls(slurm: StandInSlurm) -> list[tuple[str, str, str]]:
    """Name of the job, its tasks, and its dependency, for each call of sbatch."""
    found = []
    for call in slurm.calls():
        words, script = call["words"], call["script"]
        options = dict(word.partition("=")[::2] for word in words)
        name = script.partition("--job-name=")[2].split()[0]
        if "--dependency" in options:
            assert options["--kill-on-invalid-dep"] == "yes"
        found.append((name, ",".join(call["tasks"]), options.get("--dependency", "")))
    return found


def end(slurm: StandInSlurm, job_id: str, reason: str = "completed") -> None:
    """The job has run: it has left the queue, and written its folder."""
    call = next(one for one in slurm.calls() if one["job"] == job_id)
    script = str(call["script"])
    plan = next(line for line in script.splitlines() if line.startswith('{"name"'))
    job = pathlib.Path("logs", job_id)
    job.mkdir(parents=True)
    (job / "plan.json").write_text(plan)
    (job / "attempts.jsonl").write_text(json.dumps({"attempt": 1, "reason": reason}) + "\n")
    slurm.set_queue(*(row for row in slurm.queue() if row["%A"] != job_id))


def test_the_token_is_added_to_a_comment_of_ones_own(clusterjobs: Run, slurm: StandInSlurm) -> None:
    """Without the token, a job whose submission crashed would not be found again."""
    write("first")
    write("second", "needs: [first.yaml]\n")
    submit(clusterjobs, "second", "--", "--comment=of mine")
    lines = pathlib.Path("logs/submissions.jsonl").read_text().splitlines()
    token = json.loads(lines[-1])["token"]
    comments = [word for word in slurm.calls()[-1]["words"] if word.startswith("--comment")]
    assert comments[-1] == f"--comment=of mine clusterjobs:{token}"


def test_what_is_missing_is_submitted_in_order(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write("prepare")
    write("train", "needs: [prepare.yaml]\n")
    write("clean", "needs: [{spec: prepare.yaml, on: end}]\n")
    write("final", "needs: [train.yaml, {spec: clean.yaml, on: start}, {spec: prepare.yaml}]\n")
    done = submit(clusterjobs, "final")
    assert calls(slurm) == [
        ("prepare", "", ""),
        ("train", "", "afterok:100"),
        ("clean", "", "afterany:100"),
        ("final", "", "afterok:10100:100,after:20100"),
    ]
    assert done["job_id"] == 30100
    assert [(one["spec"], one["job_ids"], one["submitted"]) for one in done["needs"]] == [
        ("prepare.yaml", ["100"], True),
        ("train.yaml", ["10100"], True),
        ("clean.yaml", ["20100"], True),
    ]


def test_a_warning_about_a_needed_spec_names_its_file(
    clusterjobs: Run, slurm: StandInSlurm, tmp_path: pathlib.Path
) -> None:
    write("prepare", f"workdir: {tmp_path}/code\n")
    write("train", "needs: [prepare.yaml]\n")
    done = clusterjobs("submit", "train.yaml")
    told = f"prepare.yaml: there is no {tmp_path}/code, though its folder is here"
    assert done.err.count(told) == 1


@pytest.mark.parametrize("more", ["", SWEEP])
def test_status_names_the_specs_that_a_pending_job_waits_for(
    clusterjobs: Run, slurm: StandInSlurm, more: str
) -> None:
    write("prepare")
    write("train", f"needs: [prepare.yaml]\n{more}", SWEPT if more else SPEC)
    submit(clusterjobs, "train")
    waits = {"%r": "Dependency", "%E": "afterok:100(unfulfilled)"}
    slurm.set_queue(*(row | waits if row["%j"] == "train" else row for row in slurm.queue()))
    data = json.loads(clusterjobs("status", "train.yaml", "--json").out)
    jobs = data["sweeps"][0]["points"] if more else data["jobs"]
    assert {one["waits_for"] for one in jobs} == {"needs prepare.yaml (job 100) (Dependency)"}
    shown = clusterjobs("status", "train.yaml", jobs[0]["job_id"], "--points").out
    assert "waits: needs prepare.yaml (job 100)" in shown


def test_the_reason_is_shown_in_any_folder(
    clusterjobs: Run, slurm: StandInSlurm, folder: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("train", SWEEP, SWEPT)
    write("final", "needs: [train.yaml]\n", SPEC.replace("logs: logs", f"logs: {folder}/logs"))
    submit(clusterjobs, "final")
    slurm.set_queue()
    monkeypatch.chdir(folder.parent)
    (job,) = json.loads(clusterjobs("status", folder / "final.yaml", "--json").out)["jobs"]
    why = "needs train.yaml (job 100), of which 3 of 3 points did not complete"
    assert (job["status"], job["state_reason"]) == ("cancelled", why)
    assert why in clusterjobs("logs", folder / "final.yaml").err


def test_what_is_completed_or_in_the_queue_is_not_submitted_again(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    write("prepare")
    write("train", "needs: [prepare.yaml]\n")
    write("final", "needs: [train.yaml, prepare.yaml]\n")
    submit(clusterjobs, "train")
    end(slurm, "100")
    done = submit(clusterjobs, "final")
    assert calls(slurm)[2:] == [("final", "", "afterok:10100")]
    assert [(one["submitted"], one["why"]) for one in done["needs"]] == [
        (False, "there already: completed"),
        (False, "there already: pending"),
    ]
    end(slurm, "10100")
    submit(clusterjobs, "final")
    assert calls(slurm)[3:] == [("final", "", "")]


def test_what_has_failed_or_changed_is_submitted_again(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    write("prepare")
    write("train", "needs: [prepare.yaml]\n")
    submit(clusterjobs, "train")
    end(slurm, "100")
    end(slurm, "10100", "failure")
    write("final", "needs: [train.yaml]\n")
    done = submit(clusterjobs, "final")
    assert [one["why"] for one in done["needs"]] == [
        "there already: completed",
        "it failed",
    ]
    assert calls(slurm)[2:] == [("train", "", ""), ("final", "", "afterok:20100")]
    end(slurm, "20100")
    write("prepare", "env: {A: b}\n")  # train itself is the same: it is not run again
    write("final", "needs: [train.yaml, prepare.yaml]\n")
    done = submit(clusterjobs, "final")
    assert [one["why"] for one in done["needs"]] == [
        "its spec has changed",
        "there already: completed",
    ]
    assert calls(slurm)[4:] == [("prepare", "", ""), ("final", "", "afterok:40100")]


@pytest.mark.parametrize(
    ("on", "reason", "waits"), [("end", "failure", ""), ("failure", "failure", "")]
)
def test_a_need_that_a_failure_meets_is_not_run_again(
    clusterjobs: Run, slurm: StandInSlurm, on: str, reason: str, waits: str
) -> None:
    write("train")
    write("final", f"needs: [{{spec: train.yaml, on: {on}}}]\n")
    submit(clusterjobs, "final")
    end(slurm, "100", reason)
    submit(clusterjobs, "final")
    first = {"end": "afterany:100", "failure": "afternotok:100"}[on]
    assert calls(slurm)[1:] == [("final", "", first), ("final", "", waits)]


def test_a_job_that_would_wait_for_ever_is_refused(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write("train")
    write("final", "needs: [{spec: train.yaml, on: failure}]\n")
    submit(clusterjobs, "train", "-o", "elsewhere")
    end(slurm, "100")
    done = clusterjobs("submit", "final.yaml")
    assert done.code == 1
    assert "final.yaml:6:16 needs[0]: train.yaml has completed" in done.err
    assert len(slurm.calls()) == 1


def test_a_pending_job_that_was_submitted_alone_is_found_by_its_name(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    write("prepare")
    write("final", "needs: [prepare.yaml]\n")
    submit(clusterjobs, "prepare")
    (found,) = slurm.queue()
    pathlib.Path("logs/submissions.jsonl").unlink()  # it was submitted with plain sbatch
    write_squeue(slurm.folder, {**found, "%k": ""})
    done = submit(clusterjobs, "final")
    assert calls(slurm)[1:] == [("final", "", "afterok:100")]
    assert done["needs"][0]["why"] == "there already: pending, found by its name"


def test_a_refusal_in_the_middle_says_what_was_submitted_and_the_next_submit_goes_on(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    write("prepare")
    write("train", "needs: [prepare.yaml]\nsbatch: {account: none}\n")
    write("final", "needs: [train.yaml]\n")
    sbatch = slurm.folder / "sbatch"
    sbatch.rename(slurm.folder / "real-sbatch")
    sbatch.write_text(REFUSES_AN_ACCOUNT)
    sbatch.chmod(0o755)
    done = clusterjobs("submit", "final.yaml")
    assert done.code == 1
    assert "sbatch refused the job: no account" in done.err
    assert "submitted before that: prepare.yaml (1 job: 100)" in done.err
    assert "clusterjobs cancel 100" in done.err
    (slurm.folder / "real-sbatch").rename(sbatch)
    submit(clusterjobs, "final")
    assert calls(slurm) == [
        ("prepare", "", ""),
        ("train", "", "afterok:100"),
        ("final", "", "afterok:10100"),
    ]


def test_a_mistake_in_a_needed_spec_is_found_before_anything_is_submitted(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    write("prepare")
    write("train", "needs: [prepare.yaml]\nnodes: 400\n")
    write("final", "needs: [train.yaml]\n")
    done = clusterjobs("submit", "final.yaml")
    assert done.code == 1
    assert "train.yaml:7:8 nodes" in done.err
    assert slurm.calls() == []


def test_no_needs_submits_the_spec_alone(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write("prepare")
    write("final", "needs: [prepare.yaml]\n")
    submit(clusterjobs, "final", "--no-needs")
    assert calls(slurm) == [("final", "", "")]


def test_a_dry_run_submits_nothing(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write("prepare")
    write("final", "needs: [prepare.yaml]\n")
    done = clusterjobs("submit", "final.yaml", "--dry-run")
    assert [line.split() for line in done.out.splitlines()[:3]] == [
        ["needs", "submitted", "job", "why"],
        ["prepare.yaml", "would", "be", "it", "has", "not", "run", "yet"],
        ["final.yaml", "would", "be", "the", "spec", "itself,", "after", "what", "it", "needs"],
    ]
    assert slurm.calls() == []
    assert not pathlib.Path("generated").exists()


def test_an_own_dependency_beside_needs_is_refused(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write("prepare")
    write("final", "needs: [prepare.yaml]\n")
    done = clusterjobs("submit", "final.yaml", "--", "--dependency=afterok:1")
    assert done.code == 1
    assert "write it as needs: [{job: 4711}], or submit with --no-needs" in done.err


# ------------------------------------------------------------------ sweeps


def test_a_sweep_is_waited_for_as_a_whole(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write("train", SWEEP, SWEPT)
    write("final", "needs: [train.yaml]\n")
    done = submit(clusterjobs, "final")
    assert calls(slurm) == [("train", "0,1,2", ""), ("final", "", "afterok:100")]
    assert done["needs"][0]["why"] == "3 of 3 points: 3 missing"


def test_each_point_waits_for_the_same_point(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write("train", SWEEP, SWEPT)
    write("final", f"{SWEEP}needs: [{{spec: train.yaml, on: each}}]\n", SWEPT)
    submit(clusterjobs, "final")
    assert calls(slurm) == [("train", "0,1,2", ""), ("final", "0,1,2", "aftercorr:100")]


def test_points_whose_points_have_completed_do_not_wait(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    write("train", SWEEP, SWEPT)
    submit(clusterjobs, "train", "--points", "1")
    write("final", f"{SWEEP}needs: [{{spec: train.yaml, on: each}}]\n", SWEPT)
    submit(clusterjobs, "final")
    assert sorted(calls(slurm)[1:]) == [
        ("final", "0,2", "aftercorr:10100"),
        ("final", "1", "aftercorr:100"),
        ("train", "0,2", ""),
    ]


def test_points_of_separate_jobs_wait_for_a_job_each(clusterjobs: Run, slurm: StandInSlurm) -> None:
    separate = SWEEP.replace("}}", "}, array: false}")
    write("train", separate, SWEPT)
    write("final", f"{SWEEP}needs: [{{spec: train.yaml, on: each}}]\n", SWEPT)
    submit(clusterjobs, "final")
    assert calls(slurm)[3:] == [
        ("final", "0", "afterok:100"),
        ("final", "1", "afterok:10100"),
        ("final", "2", "afterok:20100"),
    ]


def test_separate_jobs_wait_for_a_task_each(clusterjobs: Run, slurm: StandInSlurm) -> None:
    separate = SWEEP.replace("}}", "}, array: false}")
    write("train", SWEEP, SWEPT)
    write("final", f"{separate}needs: [{{spec: train.yaml, on: each}}]\n", SWEPT)
    submit(clusterjobs, "final")
    assert calls(slurm) == [
        ("train", "0,1,2", ""),
        ("final", "", "afterok:100_0"),
        ("final", "", "afterok:100_1"),
        ("final", "", "afterok:100_2"),
    ]


def test_a_sweep_that_has_nothing_to_submit_asks_for_no_needs(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    write("train")
    write("final", f"{SWEEP}needs: [train.yaml]\n", SWEPT)
    submit(clusterjobs, "final")
    end(slurm, "100", "failure")
    done = submit(clusterjobs, "final")
    assert (done["jobs"], len(slurm.calls())) == ([], 2)


# ------------------------------------------------------------------ two at once, crashes


def test_two_submits_at_once_submit_what_both_need_once(
    folder: pathlib.Path, slurm: StandInSlurm, site_home: pathlib.Path
) -> None:
    environment = {**os.environ, "XDG_CONFIG_HOME": str(site_home), "STAND_IN_DELAY": "0.2"}
    for number in range(3):
        write(f"prepare{number}")
        write(f"final{number}", f"needs: [prepare{number}.yaml]\n")
        command = [CLUSTERJOBS, "submit", f"final{number}.yaml", "--json", "-o"]
        both = [
            subprocess.Popen([*command, f"out{one}"], env=environment, stdout=subprocess.PIPE)
            for one in range(2)
        ]
        told = [json.loads(one.communicate(timeout=120)[0])["needs"][0] for one in both]
        assert told[0]["job_ids"] == told[1]["job_ids"]
        assert sorted(name for name, _, _ in calls(slurm)[3 * number :]) == [
            f"final{number}",
            f"final{number}",
            f"prepare{number}",
        ]


def test_a_crash_after_sbatch_loses_no_job(
    clusterjobs: Run, slurm: StandInSlurm, site_home: pathlib.Path
) -> None:
    write("prepare")
    write("final", "needs: [prepare.yaml]\n")
    slurm.kill_caller()
    environment = {**os.environ, "XDG_CONFIG_HOME": str(site_home)}
    died = subprocess.run(
        [CLUSTERJOBS, "submit", "final.yaml"], env=environment, capture_output=True, check=False
    )
    assert died.returncode == -9
    submit(clusterjobs, "final")
    assert calls(slurm) == [("prepare", "", ""), ("final", "", "afterok:100")]


def test_a_spec_from_standard_input_can_need_others(
    clusterjobs: Run, slurm: StandInSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("prepare")
    text = SPEC.format(name="final", more="needs: [prepare.yaml]\n")
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(text.encode())))
    assert clusterjobs("submit", "-").code == 0
    assert calls(slurm) == [("prepare", "", ""), ("final", "", "afterok:100")]


# ------------------------------------------------------------------ ids of jobs


def row(job_id: str, state: str) -> dict[str, str]:
    return {"%A": job_id, "%F": job_id, "%K": "N/A", "%T": state, "%U": "0", "%i": job_id}


def test_a_job_in_the_queue_is_waited_for_by_its_id(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write("final", "needs: [{job: 7}, {job: 8, on: end}, {job: 9, on: start}, {job: 6}]\n")
    slurm.set_queue(
        row("6", "COMPLETED"), row("7", "PENDING"), row("8", "RUNNING"), row("9", "RUNNING")
    )
    submit(clusterjobs, "final")
    assert calls(slurm) == [("final", "", "afterok:7,afterany:8")]


def test_a_job_that_slurm_does_not_know_is_refused(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write("final", "needs: [{job: 4711}, {job: 12}, {job: 13, on: failure}]\n")
    slurm.set_queue(row("12", "FAILED"), row("13", "COMPLETED"))
    done = clusterjobs("submit", "final.yaml")
    assert done.code == 1
    assert "final.yaml:6:15 needs[0]: Slurm does not know job 4711" in done.err
    assert "needs[1]: job 12 did not complete: this one would never start" in done.err
    assert "needs[2]: job 13 has completed, and did not fail" in done.err
    assert slurm.calls() == []


def test_a_job_that_slurm_has_forgotten_is_known_by_its_own_record(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    write("prepare")
    submit(clusterjobs, "prepare")
    end(slurm, "100")
    write("final", "needs: [{job: 100}]\n")
    submit(clusterjobs, "final")
    assert calls(slurm)[1:] == [("final", "", "")]


def test_a_changed_value_of_a_needed_spec_reaches_the_job(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    write(
        "train",
        "checkpoints: {path: '/fsx/{{{{ name }}}}/a'}\n".replace("{{{{", "{{").replace(
            "}}}}", "}}"
        ),
    )
    more = (
        "needs: [{spec: train.yaml, as: t}]\nenv: {CHECKPOINTS: '{{ needs.t.checkpoints.path }}'}\n"
    )
    write("final", more)
    submit(clusterjobs, "final")
    assert "CHECKPOINTS=/fsx/train/a" in str(slurm.calls()[1]["script"])


def test_each_is_refused_where_tasks_are_not_points(clusterjobs: Run, slurm: StandInSlurm) -> None:
    four = SWEEP.replace("3]", "3, 4]")
    write("train", four, SWEPT)
    write("final", f"{four}needs: [{{spec: train.yaml, on: each}}]\n", SWEPT)
    slurm.configure(MaxArraySize="2", MaxJobCount="10000")
    done = clusterjobs("submit", "final.yaml")
    assert (done.code, slurm.calls()) == (1, [])
    assert "an array of this Slurm has at most 2 (MaxArraySize)" in done.err


def test_a_needed_sweep_fits_slurms_limit(clusterjobs: Run, slurm: StandInSlurm) -> None:
    write("train", SWEEP, SWEPT)
    write("final", "needs: [train.yaml]\n")
    slurm.configure(MaxArraySize="2", MaxJobCount="10000")
    submit(clusterjobs, "final")
    assert calls(slurm) == [
        ("train", "0,1", ""),
        ("train", "", ""),
        ("final", "", "afterok:100:10100"),
    ]


def test_a_point_that_fails_meanwhile_is_not_submitted_without_its_needs(
    clusterjobs: Run, slurm: StandInSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("train")
    write("final", f"{SWEEP}needs: [train.yaml]\n", SWEPT)
    submit(clusterjobs, "final")
    slurm.set_queue(*(row for row in slurm.queue() if row["%A"] != "100"))
    first_look = one_spec.chosen_now

    def then_all_are_cancelled(*words: Any) -> Any:
        found = first_look(*words)
        slurm.set_queue()
        return found

    monkeypatch.setattr(one_spec, "chosen_now", then_all_are_cancelled)
    submit(clusterjobs, "final")
    assert len(slurm.calls()) == 2


def test_a_full_disk_after_sbatch_says_the_id(
    clusterjobs: Run, slurm: StandInSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("train")
    write("final", "needs: [train.yaml]\n")
    append = record.append_submission

    def full(file: Any, one: Any) -> None:
        if one.job_id:
            raise OSError(errno.ENOSPC, "No space left on device")
        append(file, one)

    monkeypatch.setattr(record, "append_submission", full)
    done = clusterjobs("submit", "final.yaml")
    assert done.code == 1
    assert "job 100 was submitted, but its id cannot be written" in done.err
