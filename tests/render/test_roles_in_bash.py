"""Roles in whole runs of a script beside stand-ins: how a job waits for them, and how it ends."""

from __future__ import annotations

import pathlib
import signal
from typing import Any

import pytest
from script_runs import STAND_INS, Run, run_script, script

# Two nodes train, and the third, this machine, has the role. The process of each step writes its id
# into a file of the step's name.
STEPS = "4711.0 role-server\n4711.1 a\n4711.batch batch\n4711.extern extern"
BESIDE = {
    "scontrol": 'if [[ $1 == show ]]; then printf "%s\\n" one two 127.0.0.1; '
    'else echo "$*" >> "$REQUESTS"; fi',
    "squeue": f"{STAND_INS['squeue']}; case $* in *--steps*) echo '{STEPS}' ;; esac",
    "srun": "step=4711.1; while [[ $1 == --* ]]; do [[ $1 != --job-name=role-* ]] || step=4711.0; "
    'shift; done; echo $$ > "$REQUESTS.$step"; SLURM_PROCID=0 SLURM_NTASKS=1 exec "$@"',
    # Its caller ignores SIGTERM, and so do these processes, unlike those of a real step.
    "scancel": 'echo "$*" >> "$REQUESTS"; for step in "${@:2}"; do '
    '[[ $1 != *TERM ]] || kill -KILL "$(< "$REQUESTS.$step")"; done',
}


def run(folder: pathlib.Path, train: str, serve: str, **keys: Any) -> Run:
    role = {"command": ["bash", "-c", serve], **keys.pop("role", {})}
    patience = keys.pop("patience", "0.1")  # of the script, with ranks whose role has ended
    of_run = {key: keys.pop(key) for key in ("state", "why", "signal") if key in keys}
    text = script(
        cluster_text=pathlib.Path(folder / "three.yaml").read_text(),
        command=["bash", "-c", train],
        nodes=3,
        roles={"server": role},
        **keys,
    ).replace("pause 10 #", f"pause {patience} #")
    environment = {"SLURM_CPUS_ON_NODE": "4"}
    return run_script(folder, text, environment=environment, stand_ins=BESIDE, **of_run)


@pytest.fixture
def here(tmp_path: pathlib.Path) -> pathlib.Path:
    from script_runs import SMALL

    (tmp_path / "three.yaml").write_text(SMALL.replace("MaxCount: 2", "MaxCount: 3"))
    return tmp_path


FOREVER = "while :; do sleep 0.1; done"


def test_a_training_ends_its_server_and_decides_the_exit_code(here: pathlib.Path) -> None:
    well = run(here, "true", FOREVER)
    assert (well.code, well.reasons) == (0, ["completed"]), well.log
    assert well.requests == ["--signal=TERM 4711.0"]
    failed = run(here, "exit 7", FOREVER)
    assert (failed.code, failed.reasons[-1]) == (7, "failure"), failed.log
    assert failed.requests[1:] == ["--signal=TERM 4711.0"]


def test_a_server_that_ends_before_it_is_ready_is_shown_with_its_log(here: pathlib.Path) -> None:
    said = "for i in {1..30}; do echo line $i; done; exit 3"
    ended = run(here, "touch trained", said, role={"port": 9})
    assert (ended.code, ended.reasons, ended.recorded) == (3, ["failure of server"], [3])
    assert "clusterjobs: server has ended before it was ready; its log, " in ended.log
    assert "  line 30\n" in ended.log
    assert "line 10\n" not in ended.log
    assert not (here / "trained").exists()


def test_a_server_that_is_not_ready_in_time_ends_the_job(here: pathlib.Path) -> None:
    late = run(here, "touch trained", FOREVER, role={"port": 9, "ready_seconds": 1})
    assert (late.code, late.reasons) == (1, ["failure of server"])
    assert "server is not ready: no answer from 127.0.0.1 port 9 in 1 s" in late.log
    assert not (here / "trained").exists()
    assert late.requests == ["--signal=TERM 4711.0"]


@pytest.mark.parametrize(("code", "recorded"), [(0, 1), (5, 5)])
def test_a_server_that_ends_stops_the_training(
    here: pathlib.Path, code: int, recorded: int
) -> None:
    ended = run(here, FOREVER, f"exit {code}")
    assert (ended.code, ended.reasons) == (recorded, ["failure of server"]), ended.log
    assert ended.requests == ["--signal=TERM 4711.1"]


def test_a_training_that_a_dead_server_made_fail_is_no_failure_of_its_own(
    here: pathlib.Path,
) -> None:
    wait = "until [[ -e gone ]]; do sleep 0.1; done; exit 7"
    ended = run(here, wait, "touch gone; exit 5")
    assert (ended.code, ended.reasons) == (5, ["failure of server"]), ended.log


def test_a_training_that_ends_well_after_its_server_has_completed(here: pathlib.Path) -> None:
    ended = run(here, "until [[ -e gone ]]; do sleep 0.1; done", "touch gone", patience="100")
    assert (ended.code, ended.reasons) == (0, ["completed"]), ended.log


def test_a_role_that_ends_with_its_job_has_not_failed(here: pathlib.Path) -> None:
    """At the time limit, Slurm ends all steps before it signals the script."""
    states = {"state": "COMPLETING", "why": "TimeLimit"}
    ended = run(here, "touch trained", "exit 5", role={"port": 9}, **states)
    assert (ended.code, ended.reasons) == (124, ["time_limit"])
    ended = run(here, "exit 7", "exit 5", **states)
    assert ended.reasons[-1] == "time_limit"
    assert "server" not in "".join(line for line in ended.log.splitlines() if "ended" in line)


def test_only_the_ranks_are_asked_to_save(here: pathlib.Path) -> None:
    train = "touch started; until [[ -e signalled ]]; do sleep 0.1; done; sleep 1"
    keys = {
        "time_limit": "01:00:00",
        "checkpoints": {"path": str(here / "saved")},
        "restarts": {"time_limit": 1, "signal": "USR2"},
    }
    ended = run(here, train, FOREVER, signal=signal.SIGUSR1, **keys)
    assert ended.reasons == ["time_limit"], ended.log
    assert ended.requests == ["--signal=USR2 4711.1", "--signal=TERM 4711.0", "requeue 4711"]
