"""Every signal that a job script can catch: in each phase, the record is what Slurm sees."""

from __future__ import annotations

import pathlib
import signal

import pytest
from script_runs import run_script, script

NOT_CAUGHT = {signal.SIGKILL, signal.SIGSTOP}
FAULTS = {signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV}  # of bash itself
STOPS = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}  # until SIGCONT
HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGPIPE}
MEANT = {signal.SIGTERM, signal.SIGUSR1}  # by Slurm: tests of restarts
NAMED = {one for one in signal.valid_signals() if one <= 31}
FATAL = sorted(NAMED - NOT_CAUGHT - FAULTS - STOPS - HARMLESS - MEANT)
REAL_TIME = [signal.SIGRTMIN, signal.SIGRTMAX]

WAIT = [["bash", "-c", "touch started; until [[ -e signalled ]]; do sleep 0.05; done"]]
PHASES = {
    "before": {"before": WAIT, "command": ["true"]},
    "training": {"command": WAIT[0]},
    "after": {"command": ["true"], "after": WAIT},
}
RESTARTS = {
    "time_limit": "1:00:00",
    "checkpoints": {"path": "/tmp/none", "marker": "latest"},
    "restarts": {"failure": 1},
}


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", [*FATAL, *REAL_TIME])
def test_a_signal_that_ends_the_job_is_recorded_as_a_failure(
    tmp_path: pathlib.Path, phase: str, number: int
) -> None:
    run = run_script(tmp_path, script(logs=str(tmp_path / "logs"), **PHASES[phase]), signal=number)
    assert run.code == 128 + number
    reason = "after_failure" if phase == "after" else "failure"
    assert (run.reasons, run.recorded) == ([reason], [128 + number])


@pytest.mark.parametrize("phase", PHASES)
@pytest.mark.parametrize("number", sorted(HARMLESS))
def test_a_signal_that_means_nothing_changes_nothing(
    tmp_path: pathlib.Path, phase: str, number: int
) -> None:
    run = run_script(tmp_path, script(logs=str(tmp_path / "logs"), **PHASES[phase]), signal=number)
    assert (run.code, run.reasons) == (0, ["completed"]), run.log


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR2, signal.SIGXCPU])
def test_a_job_with_restarts_restarts_after_it(tmp_path: pathlib.Path, number: int) -> None:
    keys = {**PHASES["training"], **RESTARTS, "logs": str(tmp_path / "logs")}
    run = run_script(tmp_path, script(**keys), signal=number)
    assert (run.reasons, run.requeues) == (["failure"], 1), run.log
