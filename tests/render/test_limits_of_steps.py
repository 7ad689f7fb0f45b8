"""Steps that stop the job before the training, and those that run at its every end."""

from __future__ import annotations

import functools
import pathlib
import signal
from collections.abc import Callable

import pytest
from script_runs import Run, run_script, script
from step_runs import WAIT, run_steps, step, trained, with_restarts


@pytest.fixture
def run(tmp_path: pathlib.Path) -> Callable[..., Run]:
    return functools.partial(run_steps, tmp_path)


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
    assert "step NCCL: bus bandwidth 301.25 GB/s (min_bus_bandwidth: 300)" in end.log
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


def test_a_step_at_the_end_can_be_ended_by_a_signal(run) -> None:
    """`finish` ignores all of them, and a timeout could not end a command that does, too."""
    code = 'for one in HUP USR1 TERM; do bash -c "kill -$one \\$\\$; touch ignored"; done; true'
    end = run(after=[step(code, when="always")])
    assert end.code == 0, end.log
    assert not (end.folder / "ignored").exists()


def test_an_unset_variable_in_a_last_step_changes_no_exit_code(run) -> None:
    after = [step("true {{ env.NOWHERE_SET }}", when="always"), step(TELL, when="always")]
    end = run("exit 7", after=after)
    assert (end.code, end.reasons) == (7, ["failure"]), end.log
    assert "job 4711 ended with exit code 7" in end.log


def test_a_header_comes_before_the_steps_and_names_the_node(tmp_path: pathlib.Path) -> None:
    text = script(header=True, command=["true"], before=[["echo", "the", "first", "step"]])
    run = run_script(tmp_path, text, environment={"SLURM_CPUS_ON_NODE": "4"})
    assert run.reasons == ["completed"], run.log
    header, _, rest = run.log.partition("the first step")
    assert "clusterjobs: node-1: " in header
    assert "clusterjobs: Python 3." in header
    assert "clusterjobs: node-1: " not in rest
