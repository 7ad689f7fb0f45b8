"""Steps in rendered scripts, run in bash beside stand-ins: names, timeouts, limits, every end."""

from __future__ import annotations

import pathlib
import signal
from collections.abc import Callable
from typing import Any

import pytest
from script_runs import Run, run_script, script

RESTARTS = {"failure": 2, "time_limit": 2}
WAIT = "touch started; until [[ -e signalled ]]; do sleep 0.05; done"


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Callable[..., Run]:
    """Run a small spec whose training leaves the file `trained`."""

    def run_spec(training: str = "touch trained", more: Any = None, **keys: Any) -> Run:
        text = script(nodes=1, command=["bash", "-c", training], **keys)
        options = {"environment": {}, **(more or {})}
        options["environment"] = {"SLURM_CPUS_ON_NODE": "2", **options["environment"]}
        return run_script(tmp_path, text, **options)

    return run_spec


def with_restarts(tmp_path: pathlib.Path) -> dict[str, Any]:
    checkpoints = {"path": str(tmp_path / "checkpoints")}
    return {"checkpoints": checkpoints, "restarts": RESTARTS, "time_limit": "1-00:00:00"}


def step(code: str, **keys: Any) -> dict[str, Any]:
    return {"command": ["bash", "-c", code], **keys}


def trained(end: Run) -> bool:
    return (end.folder / "trained").exists()


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


# ------------------------------------------------------------------ nccl-tests


def reports(*averages: str) -> str:
    """What nccl-tests prints. Source: NVIDIA/nccl-tests, src/common.cu."""
    lines = [
        "# Out of bounds values : 0 OK",
        *(f"# Avg bus bandwidth    : {one} " for one in averages),
        "#",
    ]
    return f"printf '%s\\n' {' '.join(repr(one) for one in lines)}"


@pytest.mark.parametrize("per", ["job", "node", "rank"])
def test_a_fast_network_starts_the_training(run, per: str) -> None:
    end = run(before=[step(reports("301.25"), name="NCCL", per=per, min_bus_bandwidth=300)])
    assert end.code == 0, end.log
    assert "step NCCL: bus bandwidth 301.25 GB/s, and at least 300 are wanted" in end.log
    assert "# Avg bus bandwidth    : 301.25" in end.log
    assert trained(end)


@pytest.mark.parametrize(
    ("code", "message"),
    [
        (reports("47.4509"), "47.4509 GB/s is less than min_bus_bandwidth, 300 GB/s"),
        (reports("9e+01"), "9e+01 GB/s is less than"),
        (reports("-nan"), "-nan GB/s is less than"),
        (reports("1000", "1000"), "2 separate tests instead of 1: nccl-tests needs MPI=1"),
        ("echo 9000", "0 of 1 lines '# Avg bus bandwidth' were printed"),
    ],
)
def test_a_slow_network_ends_the_job_before_the_training(
    run, tmp_path: pathlib.Path, code: str, message: str
) -> None:
    test = step(code, name="NCCL test", per="rank", min_bus_bandwidth=300)
    end = run(before=[test], **with_restarts(tmp_path))
    assert (end.code, end.reasons, end.requeues) == (69, ["not_started"], 0), end.log
    assert f"clusterjobs: step NCCL test: {message}" in end.log
    assert not trained(end)


def test_a_test_that_fails_shows_what_it_has_printed(run) -> None:
    code = "echo NCCL WARN no device; exit 2"
    end = run(before=[step(code, per="rank", min_bus_bandwidth=300)])
    assert (end.code, end.reasons) == (2, ["failure"]), end.log
    assert "NCCL WARN no device" in end.log


# ------------------------------------------------------------------ when: always

TELL = 'echo "$CLUSTERJOBS_REASON $CLUSTERJOBS_EXIT_CODE $CLUSTERJOBS_DECISION" >> told; exit 5'


@pytest.mark.parametrize(("training", "code"), [("true", 0), ("exit 7", 7)])
def test_a_step_runs_at_every_end_and_changes_no_exit_code(run, training: str, code: int) -> None:
    after = [step("touch well"), step(TELL, when="always", name="alert")]
    end = run(training, after=after)
    reason = "failure" if code else "completed"
    assert (end.code, end.reasons, end.recorded) == (code, [reason], [code]), end.log
    assert (end.folder / "told").read_text() == f"{reason} {code} stop\n"
    assert (end.folder / "well").exists() == (code == 0)
    assert "step alert ended with exit code 5" in end.log
    assert f"job 4711 ended with exit code {code} after" in end.log.splitlines()[-1]


def test_a_step_at_the_end_knows_whether_the_job_goes_on(run, tmp_path: pathlib.Path) -> None:
    end = run("exit 7", after=[step(TELL, when="always")], **with_restarts(tmp_path))
    assert (end.code, end.requeues) == (7, 1), end.log
    assert (tmp_path / "told").read_text() == "failure 7 restart\n"


def test_a_step_runs_at_the_end_of_a_job_that_did_not_start(run) -> None:
    end = run(workdir="/nowhere", after=[step("true", when="always", name="tidy")])
    assert (end.code, end.reasons) == (1, ["not_started"]), end.log
    assert "step tidy starts" in end.log


def test_a_step_at_the_end_runs_after_a_failing_step(run) -> None:
    after = [step("exit 9", name="test"), step(TELL, when="always")]
    end = run(after=after)
    assert (end.code, end.reasons) == (9, ["after_failure"]), end.log
    assert (end.folder / "told").read_text() == "after_failure 9 stop\n"


def test_a_step_at_the_end_that_hangs_is_ended(run) -> None:
    always = [
        step("sleep 1000", when="always", name="slow", timeout_seconds=1),
        step(TELL, when="always"),
    ]
    end = run("exit 7", after=always)
    assert (end.code, end.reasons) == (7, ["failure"]), end.log
    assert "step slow ended with exit code 124 (timeout: 1 s)" in end.log
    assert (end.folder / "told").exists()


def test_a_cancelled_job_runs_its_last_steps_in_the_time_that_slurm_leaves(run) -> None:
    always = [step("echo x > told", when="always", name="tidy", timeout_seconds=600)]
    always.append(step("exit 3", when="always", name="late", timeout_seconds=600))
    end = run(WAIT, after=always, more={"signal": signal.SIGTERM})
    assert (end.code, end.reasons) == (143, ["cancelled"]), end.log
    assert (end.folder / "told").exists()
    left = end.log.partition("step late ended with exit code 3 (timeout: ")[2].partition(" s)")[0]
    assert 0 < int(left) <= 15, end.log


def test_an_unset_variable_in_a_last_step_changes_no_exit_code(run) -> None:
    after = [step("true {{ env.NOWHERE_SET }}", when="always"), step(TELL, when="always")]
    end = run("exit 7", after=after)
    assert (end.code, end.reasons) == (7, ["failure"]), end.log
    assert "job 4711 ended with exit code 7" in end.log
