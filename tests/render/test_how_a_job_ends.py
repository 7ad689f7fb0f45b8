"""How a job ends: whole scripts in bash, beside stand-ins for Slurm's commands."""

from __future__ import annotations

import os
import pathlib
import subprocess
from collections.abc import Callable
from typing import Any

import pytest
from script_runs import JOB_ID, Run, run_script, script

RESTARTS = {"failure": 2, "time_limit": 2}
# Slurm ends the ranks before it signals the script; their exit code may be any.
ENDS = {"well": "exit 0", "badly": "exit 15"}


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Callable[..., Run]:
    def run_here(text: str, state: str = "RUNNING", why: str = "None", **more: Any) -> Run:
        return run_script(tmp_path, text, state, why, **more)

    return run_here


def text_of(ranks: str = "true", **keys: Any) -> str:
    return script(nodes=1, command=["bash", "-c", ranks], **keys)


def with_restarts(tmp_path: pathlib.Path, **keys: Any) -> str:
    checkpoints = {"path": str(tmp_path / "checkpoints")}
    keys = {"restarts": RESTARTS, "time_limit": "1-00:00:00", **keys}
    return text_of(checkpoints=checkpoints, **keys)


@pytest.mark.parametrize(
    ("why", "reason", "code"),
    [("TimeLimit", "time_limit", 124), ("None", "cancelled", 143)],
)
@pytest.mark.parametrize("ranks", ENDS)
def test_the_exit_code_is_that_of_the_reason_if_slurm_ends_the_ranks_first(
    run, ranks: str, why: str, reason: str, code: int
) -> None:
    end = run(text_of(ENDS[ranks]), "COMPLETING", why)
    assert (end.code, end.reasons, end.recorded) == (code, [reason], [code]), end.log


@pytest.mark.parametrize(
    ("why", "reason", "code"), [("TimeLimit", "time_limit", 124), ("None", "cancelled", 143)]
)
def test_the_exit_code_is_that_of_the_reason_before_the_training_too(
    run, why: str, reason: str, code: int
) -> None:
    tell = ["bash", "-c", 'kill -TERM "$PPID"']
    end = run(text_of(before=[tell]), "COMPLETING", why)
    assert (end.code, end.reasons, end.recorded) == (code, [reason], [code]), end.log


@pytest.mark.parametrize("ranks", ENDS)
def test_a_job_that_loses_a_node_for_good_is_not_recorded_as_cancelled(run, ranks: str) -> None:
    end = run(text_of(ENDS[ranks]), "COMPLETING", "NodeDown")
    assert (end.code != 0, end.reasons) == (True, ["node_failure"]), end.log


@pytest.mark.parametrize("restarts", [True, False])
def test_a_step_that_slurm_ended_is_no_failure(run, tmp_path: pathlib.Path, restarts: bool) -> None:
    before = [["bash", "-c", "exit 9"]]
    text = with_restarts(tmp_path, before=before) if restarts else text_of(before=before)
    end = run(text, "COMPLETING", "TimeLimit")
    assert (end.code, end.reasons, end.recorded) == (124, ["time_limit"], [124]), end.log


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ("task 3: Exited with exit code 7", 7),
        ("tasks 0-2,5: Exited with exit code 9", 9),
        ("task 1: Segmentation fault (core dumped)", 139),
        ("task 0: Aborted", 134),
        ("task 0: Out Of Memory", 137),
        ("task 0: Terminated", 143),
        ("task 0: a word that we do not have", 143),
    ],
)
def test_the_exit_code_is_that_of_the_rank_that_failed_first(run, said: str, code: int) -> None:
    srun = f"""
echo '0: srun: error: node-1: task 9: Exited with exit code 99' # a rank has printed this
sleep 0.3
echo 'srun: error: node-1: {said}' >&2
echo 'srun: error: node-2: tasks 4,6-7: Exited with exit code 15' >&2
exit 143"""
    end = run(text_of(), stand_ins={"srun": srun})
    assert (end.code, end.reasons, end.recorded) == (code, ["failure"], [code]), end.log


def test_an_exit_code_of_an_earlier_attempt_is_not_taken(run) -> None:
    first = "echo 'srun: error: node-1: task 0: Exited with exit code 7' >&2; exit 143"
    assert run(text_of(), stand_ins={"srun": first}).recorded == [7]
    assert run(text_of(), stand_ins={"srun": "exit 143"}).recorded[-1] == 143


def test_a_failing_rank_gives_the_job_its_exit_code(run) -> None:
    end = run(text_of("exit 7"))
    assert (end.code, end.reasons, end.recorded) == (7, ["failure"], [7]), end.log


def test_a_job_is_completed_only_at_the_end_of_main(run) -> None:
    """The spec's own code may say `exit 0`, or `return`: the training has not run."""
    for code in ("exit 0", "return 0"):
        end = run(text_of("touch trained", setup=[code]))
        assert end.code == 1, end.log
        assert set(end.reasons) == {"failure"}
        assert not (end.folder / "trained").exists()


def test_a_training_that_ended_well_is_not_run_again_if_a_command_after_it_fails(
    run, tmp_path: pathlib.Path
) -> None:
    end = run(with_restarts(tmp_path, after=[["bash", "-c", "exit 9"]]))
    assert (end.code, end.reasons, end.recorded) == (9, ["after_failure"], [9]), end.log
    assert end.requeues == 0


@pytest.mark.parametrize(("why", "code"), [("TimeLimit", 124), ("None", 143)])
def test_a_training_that_ended_well_is_not_run_again_if_slurm_ends_what_follows(
    run, tmp_path: pathlib.Path, why: str, code: int
) -> None:
    squeue = f'if [[ -e ended ]]; then echo "COMPLETING:{why}"; else echo "RUNNING:None"; fi'
    tell = 'touch ended; kill -TERM "$PPID"'
    text = with_restarts(tmp_path, after=[["bash", "-c", tell]])
    end = run(text, stand_ins={"squeue": squeue})
    assert (end.code, end.requeues) == (code, 0), end.log


@pytest.mark.parametrize(
    ("signal", "ranks", "code", "reason"),
    [
        ("TERM", "exit 9", 143, "cancelled"),
        ("TERM", "true", 143, "cancelled"),
        ("INT", "exit 9", 9, "failure"),
        ("USR1", "exit 9", 124, "time_limit"),
        ("USR1", "true", 0, "completed"),
    ],
)
def test_a_signal_at_the_start_of_finish_loses_no_record(
    run, tmp_path: pathlib.Path, signal: str, ranks: str, code: int, reason: str
) -> None:
    """bash does not start `finish` again if it is told to exit there."""
    text = with_restarts(tmp_path, ranks=ranks, restarts={"time_limit": 2})
    start = "  set +e; trap - EXIT"
    assert text.count(start) == 1
    end = run(text.replace(start, f"  kill -{signal} $$\n{start}"))
    assert (end.code, end.reasons, end.recorded) == (code, [reason], [code]), end.log


def test_a_training_that_fails_is_run_again(run, tmp_path: pathlib.Path) -> None:
    end = run(with_restarts(tmp_path, ranks="exit 9", after=["true"]))
    assert (end.code, end.reasons, end.requeues) == (9, ["failure"], 1), end.log
    assert f"requeue {JOB_ID}" in end.requests


@pytest.mark.parametrize("state", ["SIGNALING", "STOPPED", "SUSPENDED", "RESIZING"])
def test_a_job_that_gets_a_signal_from_slurm_is_not_taken_for_a_cancelled_one(
    run, tmp_path: pathlib.Path, state: str
) -> None:
    """squeue shows SIGNALING while Slurm delivers a SIGCONT."""
    end = run(with_restarts(tmp_path, ranks="exit 9"), state)
    assert (end.code, end.reasons, end.requeues) == (9, ["failure"], 1), end.log


def test_what_follows_may_end_well(run, tmp_path: pathlib.Path) -> None:
    end = run(with_restarts(tmp_path, after=["true"]))
    assert (end.code, end.reasons, end.requeues) == (0, ["completed"], 0), end.log


@pytest.mark.parametrize(
    "secret",
    [
        {"file": "/nowhere/key"},
        {"file": "${NOT_SET_HERE}/key"},
        {"file": "/dev/null"},
        {"command": ["false"]},
        {"command": ["no-such-program"]},
        None,
    ],
    ids=str,
)
def test_a_secret_that_is_not_there_is_not_tried_again(
    run, tmp_path: pathlib.Path, secret: Any
) -> None:
    end = run(with_restarts(tmp_path, ranks="touch trained", secrets={"A_KEY": secret}))
    assert (end.code, end.reasons, end.requeues) == (1, ["not_started"], 0), end.log
    assert "clusterjobs: the secret A_KEY is " in end.log
    assert not (end.folder / "trained").exists()


def test_restarts_end_with_their_budget(run, tmp_path: pathlib.Path) -> None:
    step = 'touch "$CHECKPOINTS/$SLURM_RESTART_COUNT"; exit 9'
    text = with_restarts(tmp_path, ranks=step, env={"CHECKPOINTS": f"{tmp_path}/checkpoints"})
    for count in range(3):
        end = run(text, environment={"SLURM_RESTART_COUNT": str(count)})
    assert [one["attempt"] for one in end.records] == [1, 2, 3]
    assert end.requeues == 2
    assert "no restart: restarts.failure allows 2" in end.log


def test_a_lost_node_is_known_by_the_next_attempt(run, tmp_path: pathlib.Path) -> None:
    text = with_restarts(tmp_path, ranks="kill -KILL $SCRIPT", setup=["export SCRIPT=$$"])
    killed = run(text)
    assert killed.records == [], killed.log
    done = run(with_restarts(tmp_path), environment={"SLURM_RESTART_COUNT": "1"})
    assert done.reasons == ["node_failure", "completed"], done.log
    assert "attempt 2, from checkpoint none" in done.log


@pytest.mark.parametrize("needs", ["argparse", "a_module_that_is_not_here"])
def test_the_script_of_a_lost_node_records_nothing_once_the_next_attempt_has_begun(
    run, tmp_path: pathlib.Path, needs: str
) -> None:
    begins = f"echo 2 1 >> {tmp_path}/logs/{JOB_ID}/started"
    ranks = f"{begins}; kill $SCRIPT; exec sleep 1"  # bash itself records at SIGTERM, then finish
    text = with_restarts(tmp_path, ranks=ranks, setup=["export SCRIPT=$$"])
    end = run(text.replace("import argparse", f"import {needs}"))
    assert (end.code, end.records, end.requeues) == (143, [], 0), end.log
    assert "got SIGTERM during" in end.log


def test_without_attempt_py_the_end_is_recorded_and_nothing_restarts(
    run, tmp_path: pathlib.Path
) -> None:
    text = with_restarts(tmp_path, ranks="exit 9").replace("import argparse", "import nothing")
    end = run(text)
    assert (end.code, end.reasons, end.recorded) == (9, ["failure"], [9]), end.log
    assert end.requeues == 0
    assert "attempt.py does not run" in end.log


def test_records_of_bash_and_of_attempt_py_have_the_same_schema(
    run, tmp_path: pathlib.Path
) -> None:
    keys = {"checkpoints": {"path": str(tmp_path / "checkpoints"), "marker": "latest"}}
    (tmp_path / "checkpoints").mkdir()
    (tmp_path / "checkpoints" / "latest").write_text('step "5"\n')
    by_bash = run(text_of(**keys)).records[0]
    keys |= {"restarts": RESTARTS, "time_limit": "1-00:00:00"}
    by_program = run(text_of(**keys)).records[-1]
    began = by_program.pop("began")  # of others, it follows from `ended` and `seconds`
    assert isinstance(began, int)
    assert {name: type(value) for name, value in by_bash.items()} == {
        name: type(value) for name, value in by_program.items()
    }
    assert by_bash["nodes"] == by_program["nodes"] == "node-1"
    assert by_bash["checkpoint"] == "step 5"


def test_near_the_time_limit_the_ranks_get_a_file_and_a_signal(run, tmp_path: pathlib.Path) -> None:
    ranks = (
        "kill -USR1 $SCRIPT; "
        "until [[ -e $CLUSTERJOBS_STOP_FILE && -e $REQUESTS ]]; do sleep 0.05; done"
    )
    text = with_restarts(
        tmp_path,
        ranks=ranks,
        restarts={**RESTARTS, "signal": "USR2"},
        setup=["export SCRIPT=$$"],
    )
    end = run(text)
    assert (end.code, end.reasons, end.requeues) == (124, ["time_limit"], 1), end.log
    assert f"scancel --signal=USR2 {JOB_ID}" in end.requests
    assert "the time limit is near: the ranks have 180 s to save and end" in end.log


def test_the_checkpoints_may_be_named_by_a_parameter(run, tmp_path: pathlib.Path) -> None:
    keys = {"parameters": {"RUN": "one"}, "restarts": {"failure": 1}}
    checkpoints = {"path": f"{tmp_path}/{{{{ parameters.RUN }}}}/c", "marker": "latest"}
    mark = f"echo step-1 > {tmp_path}/one/c/latest; exit 9"
    end = run(text_of(mark, checkpoints=checkpoints, **keys))
    assert (end.code, end.reasons, end.requeues) == (9, ["failure"], 1), end.log
    assert end.records[0]["checkpoint"] == "step-1"


@pytest.mark.parametrize(
    ("lines", "code"),
    [
        (["shopt -s extglob", "touch a1; rm !(b|*.sh|bin|logs)"], 0),
        (["shopt -s expand_aliases", "alias mark='touch marked'", "mark"], 0),
        (["if true; then"], 2),
        (["}"], 2),
        (["false"], 1),
    ],
)
def test_the_specs_own_code_runs_as_in_a_script_and_its_errors_end_the_job(
    run, lines: list[str], code: int
) -> None:
    end = run(text_of(setup=lines))
    assert bool(end.code) == bool(code), end.log
    assert end.reasons == ["failure" if code else "completed"]


def test_text_that_looks_like_a_program_changes_none(run, tmp_path: pathlib.Path) -> None:
    lines = [
        "cat > /dev/null <<'text'",
        ": <<'end of attempt.py'",
        "x",
        "end of attempt.py",
        "text",
    ]
    end = run(with_restarts(tmp_path, ranks="exit 9", setup=lines))
    assert (end.reasons, end.requeues) == (["failure"], 1), end.log


def test_plan_json_is_in_the_folder_of_the_job(run) -> None:
    import json

    end = run(text_of())
    plan = json.loads((end.folder / "logs" / JOB_ID / "plan.json").read_text())
    assert plan["name"] == "a"
    assert plan["spec"]["file"] == "spec.yaml"
    assert plan["derived"]["world_size"] == 1


def test_programs_behind_the_script_are_never_run_by_bash(tmp_path: pathlib.Path) -> None:
    """bash before 5.1 writes each here-document that it runs into a file: none may have a byte."""
    text = script(nodes=1, preflight=True)
    ends = text[text.index('\nmain "$@"') :].replace('main "$@"', "true")
    assert len(ends) > 10_000, "the programs are not there"
    (tmp_path / "ends.sh").write_text(f"set -euo pipefail\n{ends}")
    done = subprocess.run(
        ["bash", "-c", 'ulimit -f 0; exec bash "$1"', "limited", tmp_path / "ends.sh"],
        env={**os.environ, "BASH_COMPAT": "5.0"},
        check=False,
    )
    assert done.returncode == 0
