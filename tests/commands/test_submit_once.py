"""A request is one job: after a crash, a frozen controller, a full disk, or another cluster."""

from __future__ import annotations

import errno
import json
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from stand_in_slurm import StandInSlurm
from stand_in_squeue import row, write_squeue

from clusterjobs.errors import InputError
from clusterjobs.lab.lab import until
from clusterjobs.runs.submit import lock
from clusterjobs.runs.submit import sbatch as calls
from clusterjobs.slurm.queue import Queued

Run = Callable[..., Any]
SPEC = """\
name: tiny
cluster: small
framework: command
command: [./train]
logs: logs
"""
COMMAND = [sys.executable, "-c", "from clusterjobs.cli.main import main; main()", "submit"]
# sbatch as it ends when the controller is frozen: with an error, although the job is taken.
GIVES_UP = """\
#!/bin/bash
{folder}/real-sbatch "$@" > /dev/null
echo 'sbatch: error: Batch job submission failed: Socket timed out on send/recv operation' >&2
exit 1
"""
OLD = 1_000_000_000


@pytest.fixture
def slurm(
    folder: pathlib.Path, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> StandInSlurm:
    slurm = StandInSlurm(tmp_path / "bin")
    write_squeue(slurm.folder)
    monkeypatch.setenv("PATH", slurm.path)
    (folder / "exp.yaml").write_text(SPEC)
    return slurm


def lines() -> list[dict[str, Any]]:
    text = pathlib.Path("logs/submissions.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def gives_up(slurm: StandInSlurm) -> None:
    sbatch = slurm.folder / "sbatch"
    sbatch.rename(slurm.folder / "real-sbatch")
    sbatch.write_text(GIVES_UP.format(folder=slurm.folder))
    sbatch.chmod(0o755)


def hide_the_queue(slurm: StandInSlurm) -> None:
    """squeue does not answer, too."""
    squeue = slurm.folder / "squeue"
    squeue.rename(slurm.folder / "real-squeue")
    squeue.write_text("#!/bin/bash\necho 'slurm_load_jobs error: timed out' >&2; exit 1\n")
    squeue.chmod(0o755)


def show_the_queue(slurm: StandInSlurm) -> None:
    (slurm.folder / "real-squeue").rename(slurm.folder / "squeue")


# ------------------------------------------------------------------ no answer


def test_each_submit_of_a_plain_spec_is_a_job_with_a_record(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    for _ in range(2):
        assert clusterjobs("submit", "exp.yaml").code == 0
    assert [one["job_id"] for one in lines()] == [None, 100, None, 10100]
    assert not pathlib.Path("logs/submit.lock").exists()


def test_a_job_that_slurm_has_taken_without_an_answer_is_submitted(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    gives_up(slurm)
    done = clusterjobs("submit", "exp.yaml", "--json")
    assert (done.code, json.loads(done.out)["job_id"]) == (0, 100)
    assert "Slurm has taken the job, although sbatch failed: Batch" in done.err
    assert [one["job_id"] for one in lines()] == [None, 100]


@pytest.mark.parametrize("state", ["PENDING", "COMPLETED", "forgotten"])
def test_the_next_submit_finds_the_job_of_one_that_got_no_answer(
    clusterjobs: Run, slurm: StandInSlurm, state: str
) -> None:
    gives_up(slurm)
    hide_the_queue(slurm)
    done = clusterjobs("submit", "exp.yaml")
    assert done.code == 1
    assert "Slurm does not answer: it is not known whether it has taken the job" in done.err
    assert "hint: submit again when Slurm answers" in done.err
    show_the_queue(slurm)
    if state == "forgotten":
        script = str(slurm.calls()[0]["script"])
        plan = next(line for line in script.splitlines() if line.startswith('{"name": "tiny"'))
        pathlib.Path("logs/100").mkdir()
        pathlib.Path("logs/100/plan.json").write_text(plan)
        write_squeue(slurm.folder)
    else:
        slurm.set_queue(*({**one, "%T": state} for one in slurm.queue()))
    again = clusterjobs("submit", "exp.yaml", "--json")
    assert (again.code, json.loads(again.out)["job_id"]) == (0, 100)
    assert "job 100 is this job: an earlier submit got no answer from Slurm" in again.err
    assert len(slurm.calls()) == 1
    (slurm.folder / "real-sbatch").rename(slurm.folder / "sbatch")
    assert json.loads(clusterjobs("submit", "exp.yaml", "--json").out)["job_id"] == 10100


def test_another_request_is_another_job(clusterjobs: Run, slurm: StandInSlurm) -> None:
    gives_up(slurm)
    hide_the_queue(slurm)
    assert clusterjobs("submit", "exp.yaml").code == 1
    show_the_queue(slurm)
    (slurm.folder / "real-sbatch").rename(slurm.folder / "sbatch")
    done = clusterjobs("submit", "exp.yaml", "--set", "args.lr=1", "--json")
    assert json.loads(done.out)["job_id"] == 10100


def test_a_refusal_is_final(clusterjobs: Run, slurm: StandInSlurm) -> None:
    slurm.refuse("invalid partition")
    done = clusterjobs("submit", "exp.yaml")
    assert (done.code, lines()[-1]["refused"]) == (1, True)
    assert done.err.endswith("sbatch refused the job: invalid partition\n")


def test_squeue_is_asked_until_it_shows_a_job_that_waited_for_the_controller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    intent = calls.new_intent("exp.yaml", array=False, points={}, content={}, needs=())
    job = Queued("1", "PENDING", "", "", "", 0, "exp", comment=intent.comment)
    answers, asked = iter([(), (), (job,), ()]), []
    monkeypatch.setattr(calls.time, "sleep", asked.append)
    monkeypatch.setattr(calls, "known_jobs", lambda *_: next(answers))
    assert calls.settled_jobs([intent]) == (job,)
    assert len(asked) == 2


def test_a_request_of_a_day_ago_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    intent = calls.new_intent("exp.yaml", array=False, points={}, content={}, needs=())
    answers = iter([()])
    monkeypatch.setattr(calls, "known_jobs", lambda *_: next(answers))
    assert calls.settled_jobs([replace(intent, time=intent.time - 90_000)]) == ()


def test_killed_submits_start_one_job(
    clusterjobs: Run, slurm: StandInSlurm, folder: pathlib.Path
) -> None:
    """Each is killed while its sbatch runs; sbatch goes on, and the next one waits for it."""
    slurm.close_gate()
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    killed = subprocess.Popen(
        [*COMMAND, "exp.yaml"], env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    until(slurm.waits_at_gate, 60, lambda: "sbatch was not called")
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    slurm.open_gate()
    done = clusterjobs("submit", "exp.yaml", "--json")
    assert (done.code, json.loads(done.out)["job_id"], len(slurm.calls())) == (0, 100, 1)
    killed.communicate()


# ------------------------------------------------------------------ the shell's variables


def test_variables_that_change_the_plan_are_removed_and_named(
    clusterjobs: Run, slurm: StandInSlurm, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("ARRAY_INX", "0-2"), ("TIMELIMIT", "1"), ("ACCOUNT", "mine")):
        monkeypatch.setenv(f"SBATCH_{name}", value)
    script = slurm.folder / "sbatch"
    script.rename(slurm.folder / "real")
    script.write_text(f'#!/bin/bash\nenv > {slurm.folder}/seen; exec {slurm.folder}/real "$@"\n')
    script.chmod(0o755)
    (slurm.folder / "squeue.json").write_text("[]")
    rendered = clusterjobs("render", "exp.yaml")
    assert "(sbatch takes SBATCH_ARRAY_INX, SBATCH_TIMELIMIT of this shell before" in rendered.out
    done = clusterjobs("submit", "exp.yaml")
    said = "not passed on to sbatch, since the spec decides: SBATCH_ARRAY_INX, SBATCH_TIMELIMIT\n"
    assert (done.code, said in done.err) == (0, True), done.err
    seen = (slurm.folder / "seen").read_text()
    assert [one for one in seen.splitlines() if one.startswith("SBATCH_")] == [
        "SBATCH_ACCOUNT=mine"
    ]


@pytest.mark.parametrize("directive", ["--account=planned", "-A planned"])
def test_an_account_of_the_plan_is_not_changed(directive: str) -> None:
    script = f"#!/bin/bash\n#SBATCH {directive}\n"
    assert calls.changing_variables({"SBATCH_ACCOUNT": "mine"}, script) == ("SBATCH_ACCOUNT",)
    assert calls.changing_variables({"SBATCH_ACCOUNT": "mine"}, "#!/bin/bash\n") == ()


# ------------------------------------------------------------------ an old id


def old_folder(job_id: str) -> None:
    """Of a job of an earlier cluster, which ended long ago."""
    folder = pathlib.Path("logs", job_id)
    folder.mkdir(parents=True)
    plan = {"name": "tiny", "spec": {"file": "exp.yaml", "set": []}}
    (folder / "plan.json").write_text(json.dumps(plan))
    record = {"attempt": 1, "reason": "failure", "exit_code": 3, "ended": OLD}
    (folder / "attempts.jsonl").write_text(json.dumps(record) + "\n")
    (folder / "job.log").write_text("old\n")
    os.utime(folder / "plan.json", (OLD, OLD))


NOW = time.strftime("%Y-%m-%dT%H:%M:%S")
FOREIGN = (
    row("7", "RUNNING", "other", start=NOW),
    row("7", "PENDING", "other"),
    row("7", "PENDING", "tiny", comment="clusterjobs:0123456789abcdef"),
)


@pytest.mark.parametrize("job", FOREIGN)
def test_a_job_of_a_new_cluster_with_an_old_id_is_not_the_specs(
    clusterjobs: Run, slurm: StandInSlurm, job: dict[str, str]
) -> None:
    old_folder("7")
    write_squeue(slurm.folder, job)
    scancel = slurm.folder / "scancel"
    scancel.write_text(f"#!/bin/bash\ntouch {slurm.folder}/cancelled\n")
    scancel.chmod(0o755)
    assert "no pending or running job" in clusterjobs("cancel", "exp.yaml").err
    assert clusterjobs("cancel", "exp.yaml", "7").code == 1
    assert not (slurm.folder / "cancelled").exists()
    (shown,) = json.loads(clusterjobs("status", "exp.yaml", "--json").out)["jobs"]
    assert (shown["status"], shown["state"]) == ("failed", "")
    (shown,) = json.loads(clusterjobs("status", "logs", "--json").out)["jobs"]
    assert shown["status"] == "failed"
    for options in ((), ("--follow",)):
        assert clusterjobs("logs", "exp.yaml", *options).out == "old\n"
    assert clusterjobs("report", "exp.yaml").code == 0
    mine = json.loads(clusterjobs("status", "--json").out)["jobs"]
    assert [(one["job_id"], one["spec"]) for one in mine] == [("7", "")]


def test_a_cancelled_job_that_never_started_stays_cancelled(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    scancel = slurm.folder / "scancel"
    scancel.write_text("#!/bin/bash\n")
    scancel.chmod(0o755)
    clusterjobs("submit", "exp.yaml")
    assert clusterjobs("cancel", "exp.yaml").code == 0
    write_squeue(slurm.folder)
    (shown,) = json.loads(clusterjobs("status", "exp.yaml", "--json").out)["jobs"]
    assert (shown["status"], shown["state_reason"]) == ("cancelled", "cancelled before it started")


def test_a_job_that_is_cancelled_by_its_id_is_recorded_by_the_spec_of_its_name(
    clusterjobs: Run, slurm: StandInSlurm, folder: pathlib.Path
) -> None:
    scancel = slurm.folder / "scancel"
    scancel.write_text("#!/bin/bash\n")
    scancel.chmod(0o755)
    clusterjobs("submit", "exp.yaml")
    slurm.set_queue(*({**one, "%Z": str(folder)} for one in slurm.queue()))
    assert clusterjobs("cancel", "100").code == 0
    assert lines()[-1]["is"] is True


# ------------------------------------------------------------------ the lock


def test_a_full_disk_leaves_no_lock(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(lock.json, "dump", full)
    with pytest.raises(InputError, match="No space left"), lock.submit_lock(tmp_path, print):
        pass
    assert not (tmp_path / lock.LOCK).exists()


def test_an_empty_lock_is_taken_over(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / lock.LOCK).touch()
    monkeypatch.setattr(lock, "_EMPTY", 0.3)
    with lock.submit_lock(tmp_path, lambda _: None, timeout=60):
        assert json.loads((tmp_path / lock.LOCK).read_text())["pid"] == os.getpid()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_user_has_a_record_of_his_own_where_he_may_not_write_to_that_of_another(
    clusterjobs: Run, slurm: StandInSlurm
) -> None:
    pathlib.Path("logs").mkdir()
    pathlib.Path("logs/submissions.jsonl").touch(0o444)
    assert clusterjobs("submit", "exp.yaml").code == 0
    (own,) = pathlib.Path("logs").glob("submissions.[0-9]*.jsonl")
    assert json.loads(own.read_text().splitlines()[-1])["job_id"] == 100
