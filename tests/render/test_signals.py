"""Every signal that a job script can catch: in each phase, the record is what Slurm sees."""

from __future__ import annotations

import collections
import pathlib
import random
import signal
import subprocess
from typing import NamedTuple

import pytest
from script_runs import Run, run_script, script

NOT_CAUGHT = {signal.SIGKILL, signal.SIGSTOP}
FAULTS = {signal.SIGILL, signal.SIGBUS, signal.SIGFPE, signal.SIGSEGV}  # of bash itself
STOPS = {signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU}  # until SIGCONT
HARMLESS = {signal.SIGCHLD, signal.SIGCONT, signal.SIGURG, signal.SIGWINCH, signal.SIGPIPE}
CATCHABLE = sorted(signal.valid_signals() - NOT_CAUGHT - FAULTS)

WAIT = "touch started; until [[ -e signalled ]]; do sleep 0.05; done"
_STEP = ["bash", "-c", WAIT]
_CHECK = 'run_child "$python" -BEsS "$job_dir/preflight.py"'
_STAGE = 'STAGE_DIR=$job_dir run_child "$@"'
# What the script calls in that phase waits for the signal.
_REPLACED = {
    "preflight": (_CHECK, f"run_child bash -c '{WAIT}' check"),
    "staging": (_STAGE, f'STAGE_DIR=$job_dir run_child bash -c \'{WAIT}; exec "$@"\' stage "$@"'),
}
_KEYS: dict[str, dict[str, object]] = {
    "preflight": {"preflight": True},
    "staging": {"data": [{"source": "/fsx/from", "target": "/fsx/to"}]},
    "before": {"before": [_STEP]},
    "step": {"before": [{"command": _STEP, "name": "fetch"}]},
    "step of ranks": {"before": [{"command": _STEP, "per": "rank"}]},
    "training": {"command": _STEP},
    "after": {"after": [_STEP]},
    "finish": {"command": ["false"]},
}
# The second question for the state is that of `finish`.
_SECOND = (
    "[[ $* == *%T* ]] || exit 0; "
    f'if [[ -e asked ]]; then {WAIT}; else touch asked; fi; echo "$STATE:$WHY"'
)


class Case(NamedTuple):
    phase: str
    number: int
    restarts: bool

    @property
    def expected(self) -> tuple[int, str]:
        """The exit code, and the reason in the record."""
        restarts, number = self.restarts, self.number
        if self.phase == "finish":  # the training has failed
            return (143, "cancelled") if restarts and number == signal.SIGTERM else (1, "failure")
        if number in HARMLESS | STOPS:
            return 0, "completed"
        if number == signal.SIGTERM:
            return 143, "cancelled"
        if number == signal.SIGUSR1 and restarts:
            return (0, "completed") if self.phase == "after" else (124, "time_limit")
        return 128 + number, "after_failure" if self.phase == "after" else "failure"

    @property
    def message(self) -> str:
        """What the log says about the signal."""
        if self.phase == "finish" or self.expected[1] == "completed":
            return ""
        return f"clusterjobs: got {name_of(self.number)}"

    @property
    def requeues(self) -> int:
        return int(self.restarts and self.expected[1] in ("failure", "time_limit"))


def name_of(number: int) -> str:
    """As bash names it: SIGRTMIN+1 up to the middle, SIGRTMAX-1 from there on."""
    done = subprocess.run(["bash", "-c", f"kill -l {number}"], capture_output=True, text=True)
    return "SIG" + done.stdout.strip()


CASES = [
    Case(phase, number, restarts)
    for phase in _KEYS
    for number in CATCHABLE
    for restarts in (True, False)
]


def some_cases() -> list[Case]:
    """Each signal that has a name in some phase, and in each phase some signals."""
    named = [one for one in CASES if one.number < signal.SIGRTMIN]
    random.Random(1).shuffle(named)
    by_number = {one.number: one for one in named}
    by_phase = {(one.phase, one.restarts): one for one in named}
    return sorted({*by_number.values(), *by_phase.values()})


def run_case(folder: pathlib.Path, case: Case) -> Run:
    folder.mkdir(exist_ok=True)
    (folder / "fsx" / "from").mkdir(parents=True)
    keys = {"command": ["true"], **_KEYS[case.phase], "logs": str(folder / "logs")}
    if case.restarts:
        keys |= {"time_limit": "1:00:00", "checkpoints": {"path": "/fsx/none", "marker": "latest"}}
        keys |= {"restarts": {"failure": 1, "time_limit": 1}}
    text = script(**keys)
    if case.phase in _REPLACED:
        assert text.count(_REPLACED[case.phase][0]) == 1
        text = text.replace(*_REPLACED[case.phase])
    return run_script(
        folder,
        text.replace("/fsx", f"{folder}/fsx"),
        stand_ins={"squeue": _SECOND} if case.phase == "finish" else {},
        signal=case.number,
    )


def check(folder: pathlib.Path, case: Case) -> None:
    run = run_case(folder, case)
    code, reason = case.expected
    seen = (run.code, run.reasons, run.recorded, run.requeues)
    assert seen == (code, [reason], [code], case.requeues), run.log
    assert case.message in run.log
    assert case.message or "got SIG" not in run.log


@pytest.mark.parametrize("case", some_cases(), ids=lambda one: f"{one.phase}-{one.number}")
def test_the_record_is_what_slurm_sees(tmp_path: pathlib.Path, case: Case) -> None:
    check(tmp_path, case)


@pytest.mark.faults
@pytest.mark.parametrize("phase", _KEYS)
def test_every_signal_in_a_phase(
    tmp_path: pathlib.Path, phase: str, fault_counts: collections.Counter[str]
) -> None:
    fault_counts["wrong_records"] += 0
    for case in CASES:
        if case.phase == phase:
            check(tmp_path / f"{case.number}-{case.restarts}", case)
            fault_counts["tried"] += 1


@pytest.mark.parametrize("number", sorted(FAULTS))
def test_a_fault_of_bash_is_a_failure(tmp_path: pathlib.Path, number: int) -> None:
    """bash ends by the signal itself; the record has exit code 1."""
    run = run_case(tmp_path, Case("training", number, False))
    assert run.code == -number
    assert (run.reasons, run.recorded) == (["failure"], [1])
