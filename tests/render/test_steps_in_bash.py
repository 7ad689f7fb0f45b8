"""Steps in rendered scripts, run in bash beside stand-ins: names, ranks, restarts, signals."""

from __future__ import annotations

import functools
import pathlib
import signal
from collections.abc import Callable

import pytest
from script_runs import Run
from step_runs import WAIT, run_steps, step, trained, with_restarts


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Callable[..., Run]:
    return functools.partial(run_steps, tmp_path)


# ------------------------------------------------------------------ names, ranks, timeouts


def test_a_step_has_its_name_in_the_log(run) -> None:
    steps = [step("echo one", name="it's $x"), step("echo two", per="rank")]
    end = run(before=steps, after=[step("echo three", name="the end")])
    assert end.code == 0, end.log
    order = ["step it's $x starts", "one", "step bash starts", "two", "step the end starts"]
    places = [end.log.index(text) for text in order]
    assert places == sorted(places)
    assert trained(end)


@pytest.mark.parametrize("per", ["job", "node", "rank"])
def test_a_step_that_fails_is_named_and_ends_the_job_with_its_exit_code(run, per: str) -> None:
    end = run(before=[step("exit 7", name="fetch", per=per)])
    assert (end.code, end.reasons, end.recorded) == (7, ["failure"], [7]), end.log
    assert "clusterjobs: step fetch ended with exit code 7\n" in end.log
    assert not trained(end)


def test_ranks_of_a_step_have_the_variables_of_the_training(run) -> None:
    tell = 'echo "$RANK $LOCAL_RANK $WORLD_SIZE $MASTER_ADDR $MASTER_PORT $SHADE" > %s'
    end = run(tell % "training", before=[step(tell % "step", per="rank")], env={"SHADE": "red"})
    assert end.code == 0, end.log
    told = (end.folder / "step").read_text()
    assert told == (end.folder / "training").read_text()
    assert told.startswith("0 0 1 node-1 ")


@pytest.mark.parametrize("per", ["job", "node", "rank"])
def test_a_step_is_ended_by_its_timeout(run, per: str) -> None:
    end = run(before=[step("sleep 1000", name="slow", per=per, timeout_seconds=1)])
    assert (end.code, end.reasons) == (124, ["failure"]), end.log
    assert "step slow took longer than 1 s (timeout_seconds)" in end.log
    assert not trained(end)


def test_a_step_that_ignores_sigterm_ends_with_the_code_of_its_timeout(run) -> None:
    end = run(before=[step('trap "" TERM; sleep 60', name="deaf", timeout_seconds=1)])
    assert (end.code, end.reasons, end.recorded) == (124, ["failure"], [124]), end.log
    assert "step deaf ended with exit code 124" in end.log


def test_a_step_of_ranks_after_the_training_that_fails_does_not_run_the_training_again(
    run, tmp_path: pathlib.Path
) -> None:
    end = run(after=[step("exit 9", per="rank", name="test")], **with_restarts(tmp_path))
    assert (end.code, end.reasons, end.recorded) == (9, ["after_failure"], [9]), end.log
    assert end.requeues == 0


# ------------------------------------------------------------------ restarts


def test_only_a_step_without_once_runs_again_in_the_next_attempt(
    run, tmp_path: pathlib.Path
) -> None:
    count = "echo x >> {}"
    before = [
        step(count.format("each")),
        step(count.format("each-rank"), per="rank"),
        step(count.format("single"), once=True, name="tokenize"),
        step(count.format("single-rank"), once=True, per="rank"),
    ]
    keys = {"before": before, **with_restarts(tmp_path)}
    first = run("exit 3", **keys)
    assert (first.code, first.requeues) == (3, 1), first.log
    second = run(more={"environment": {"SLURM_RESTART_COUNT": "1"}}, **keys)
    assert second.code == 0, second.log
    assert "step tokenize was completed in an earlier attempt" in second.log
    runs = {one: len((tmp_path / one).read_text().split()) for one in ("each", "each-rank")}
    assert runs == {"each": 2, "each-rank": 2}
    assert (tmp_path / "single").read_text() == (tmp_path / "single-rank").read_text() == "x\n"


def test_a_step_with_once_that_failed_runs_again(run, tmp_path: pathlib.Path) -> None:
    code = "[[ -e second ]] || { touch second; exit 5; }; echo x > done"
    keys = {"before": [step(code, once=True)], **with_restarts(tmp_path)}
    assert run(**keys).code == 5
    end = run(more={"environment": {"SLURM_RESTART_COUNT": "1"}}, **keys)
    assert end.code == 0, end.log
    assert (tmp_path / "done").exists()


def test_a_new_job_with_an_old_id_runs_a_step_with_once(run, tmp_path: pathlib.Path) -> None:
    for _ in range(2):
        end = run(before=[step("echo x >> count", once=True)])
        assert end.code == 0, end.log
    assert (tmp_path / "count").read_text() == "x\nx\n"


# ------------------------------------------------------------------ signals


@pytest.mark.parametrize("where", ["before", "after"])
def test_ranks_of_a_step_may_save_after_a_sigterm(run, tmp_path: pathlib.Path, where: str) -> None:
    saves = f"{WAIT}; touch saved"
    keys = {where: [step(saves, per="rank")], **with_restarts(tmp_path)}
    end = run(more={"signal": signal.SIGTERM}, **keys)
    assert (end.code, end.reasons, end.requeues) == (143, ["cancelled"], 0), end.log
    assert (tmp_path / "saved").exists()
    assert trained(end) == (where == "after")


def test_what_starts_the_ranks_of_a_step_ignores_sigterm_while_they_may_save(run) -> None:
    end = run(before=[step("kill -TERM $$; touch saved", per="rank")])
    assert end.code == 0, end.log
    assert (end.folder / "saved").exists()


def test_a_step_that_is_no_training_is_ended_by_a_sigterm(run) -> None:
    code = "trap 'touch ended; exit' TERM; touch started; while :; do sleep 0.05; done"
    end = run(before=[step(code, name="fetch")], more={"signal": signal.SIGTERM})
    assert (end.code, end.reasons) == (143, ["cancelled"]), end.log
    assert (end.folder / "ended").exists()


def test_a_training_before_the_training_is_told_of_the_time_limit_and_resumes(
    run, tmp_path: pathlib.Path
) -> None:
    code = "touch started; until [[ -e $CLUSTERJOBS_STOP_FILE ]]; do sleep 0.05; done; touch saved"
    keys = {"before": [step(code, per="rank", once=True)], **with_restarts(tmp_path)}
    end = run(more={"signal": signal.SIGUSR1}, **keys)
    assert (end.code, end.reasons, end.requeues) == (124, ["time_limit"], 1), end.log
    assert (tmp_path / "saved").exists()
    assert not trained(end)
    (tmp_path / "started").unlink()
    again = {**keys, "before": [step("touch resumed", per="rank", once=True)]}
    end = run(more={"environment": {"SLURM_RESTART_COUNT": "1"}}, **again)
    assert end.code == 0, end.log
    assert (tmp_path / "resumed").exists()


def test_a_step_beside_the_time_limit_restarts_the_job(run, tmp_path: pathlib.Path) -> None:
    code = "touch started; while :; do sleep 0.05; done"
    keys = {"before": [step(code, name="fetch")], **with_restarts(tmp_path)}
    end = run(more={"signal": signal.SIGUSR1}, **keys)
    assert (end.code, end.reasons, end.requeues) == (124, ["time_limit"], 1), end.log


def test_a_step_is_left_out_whose_result_is_there(run, tmp_path: pathlib.Path) -> None:
    made = tmp_path / "a b"
    before = [step("echo x >> runs; touch 'a b'", creates="${WHERE}/a b")]
    for _ in range(2):
        end = run(before=before, more={"environment": {"WHERE": str(tmp_path)}})
        assert end.code == 0, end.log
    assert (tmp_path / "runs").read_text() == "x\n"
    assert f"step bash is left out: there is {made}" in end.log
    made.unlink()
    assert run(before=before, more={"environment": {"WHERE": str(tmp_path)}}).code == 0
    assert (tmp_path / "runs").read_text() == "x\nx\n"


def test_a_step_that_does_not_make_its_result_fails(run, tmp_path: pathlib.Path) -> None:
    end = run(before=[step("true", creates=str(tmp_path / "missing"))])
    assert (end.code, end.reasons, trained(end)) == (1, ["failure"], False)
    assert f"has not made {tmp_path}/missing" in end.log
